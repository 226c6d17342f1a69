# Makes of integrity.c one whose metadata comes from the reserve alone: what is
# allocated after the reserve is there is refused, see slow/25-integrity-reserve.
/^ \* xcrypt_integrity_ctr\(\)/i\
 * reserve_only() - none\
 */\
static void *reserve_only(gfp_t gfp, void *size)\
{\
	return gfp == GFP_KERNEL ? kmalloc((unsigned long)size, gfp) : NULL;\
}\
/**
s/mempool_init_kmalloc_pool\(&in->pool, XCRYPT_MIN_METADATA, XCRYPT_MAX_METADATA\)/mempool_init(\&in->pool, XCRYPT_MIN_METADATA, reserve_only, mempool_kfree, (void *)(unsigned long)XCRYPT_MAX_METADATA)/
s/meta->bytes = kzalloc\(.*$/meta->bytes = NULL;/
