# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# TAP for shell tests, on the host and in a guest.  Source it; then
#	try TEXT COMMAND [ARG...]	a case: passes if COMMAND succeeds
#	fails TEXT COMMAND [ARG...]	a case: passes if COMMAND fails
#	same TEXT WANTED GOT		a case: passes if the two strings are equal
#	pass TEXT, fail TEXT [WHY]	a case that was decided already
#	skip TEXT REASON		a case that cannot run here
#	finish				prints the plan; its status is the test's
# COMMAND's output is shown as comment lines when the case fails.

tap_count=0
tap_failed=0

pass()
{
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $1"
}

fail()
{
	tap_count=$((tap_count + 1))
	tap_failed=$((tap_failed + 1))
	echo "not ok $tap_count - $1"
	[ -z "${2-}" ] || echo "# ${2//$'\n'/$'\n'# }"
}

skip()
{
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $1 # SKIP $2"
}

try()
{
	local text=$1 output status=0
	shift
	output=$("$@" 2>&1) || status=$?
	if [ $status = 0 ]; then
		pass "$text"
	else
		fail "$text" "status $status: $output"
	fi
}

fails()
{
	local text=$1 output
	shift
	if output=$("$@" 2>&1); then
		fail "$text" "succeeded: $output"
	else
		pass "$text"
	fi
}

same()
{
	if [ "$2" = "$3" ]; then
		pass "$1"
	else
		fail "$1" "wanted: $2
got:    $3"
	fi
}

finish()
{
	echo "1..$tap_count"
	[ $tap_failed = 0 ]
}
