/*
 * mask.c
 *	  uuid_mask and uuid_unmask: ordered keys that look random outside the database.
 *
 * A mask is a permutation of the 122 bits that version and variant leave free.
 * AES permutes blocks of 128 bits.  One block in 64 is a UUID of version 4.  A
 * key is therefore converted to version 4, and encrypted repeatedly until the
 * block is of version 4 again.  This method is cycle walking (Black and
 * Rogaway, Ciphers with Arbitrary Finite Domains, 2002, method 2).  The output
 * of cycle walking and the output of AES are equally hard to distinguish from a
 * random permutation.  uuid_unmask() decrypts the block until it is of version
 * 4 again, which takes the same number of steps.
 *
 * The walk takes 64 steps on average, and more than 1,000 steps in one of 10^7
 * calls.  The walk always ends, because repeating a permutation eventually
 * returns to the first block, which is of version 4.
 */
#include "postgres.h"

#ifdef USE_OPENSSL
#ifdef __has_include
#if __has_include(<openssl/evp.h>)
#include <openssl/evp.h>
#define HAVE_AES
#endif
#endif
#endif

#include "miscadmin.h"

#include "compat.h"
#include "keys/uuid_datum.h"

PG_FUNCTION_INFO_V1(uuid_mask);
PG_FUNCTION_INFO_V1(uuid_unmask);

#define VERSION_MIN 1			/* RFC 9562, section 4.2, table 2 */
#define VERSION_MAX 8

#ifdef HAVE_AES

#define AES128_KEY_BYTES 16
#define AES256_KEY_BYTES 32

/* The last encryption key of a call site, and the cipher with this key */
typedef struct MaskKey
{
	MemoryContextCallback wipe;
	EVP_CIPHER_CTX *cipher;
	int			length;			/* length of the key; 0 if there is no key yet */
	uint8		key[AES256_KEY_BYTES];
} MaskKey;

static void
wipe_key(void *arg)
{
	MaskKey    *last = (MaskKey *) arg;

	EVP_CIPHER_CTX_free(last->cipher);
	explicit_bzero(last->key, sizeof(last->key));
}

/*
 * Return the MaskKey of a call site; the first call of the site creates it.
 * The memory that OpenSSL allocates is freed together with the memory of the
 * call site, even after an error.
 */
static MaskKey *
last_key(FmgrInfo *function)
{
	MaskKey    *last = (MaskKey *) function->fn_extra;

	if (last == NULL)
	{
		last = (MaskKey *) MemoryContextAllocZero(function->fn_mcxt, sizeof(MaskKey));
		last->wipe.func = wipe_key;
		last->wipe.arg = last;
		MemoryContextRegisterResetCallback(function->fn_mcxt, &last->wipe);
		function->fn_extra = last;
	}
	return last;
}

static void
check_key_length(int length)
{
	if (unlikely(length != AES128_KEY_BYTES && length != AES256_KEY_BYTES))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("key must have %d or %d bytes, not %d", AES128_KEY_BYTES, AES256_KEY_BYTES, length)));
}

/*
 * Return the AES cipher with this key.  The key schedule is computed only if the key differs from the key of the
 * previous call.
 */
static EVP_CIPHER_CTX *
cipher_of_key(FmgrInfo *function, bytea *key, bool encrypt)
{
	MaskKey    *last = last_key(function);
	int			length = VARSIZE_ANY_EXHDR(key);

	check_key_length(length);
	if (likely(length == last->length && memcmp(last->key, VARDATA_ANY(key), length) == 0))
		return last->cipher;

	last->length = 0;
	if (last->cipher == NULL)
		last->cipher = EVP_CIPHER_CTX_new();
	if (last->cipher == NULL ||
		!EVP_CipherInit_ex(last->cipher, length == AES128_KEY_BYTES ? EVP_aes_128_ecb() : EVP_aes_256_ecb(),
						   NULL, (uint8 *) VARDATA_ANY(key), NULL, encrypt) ||
		!EVP_CIPHER_CTX_set_padding(last->cipher, 0))
		ereport(ERROR,
				(errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
				 errmsg("could not prepare AES")));
	memcpy(last->key, VARDATA_ANY(key), length);
	last->length = length;
	return last->cipher;
}

static UuidWords
walk(EVP_CIPHER_CTX *cipher, UuidWords words)
{
	pg_uuid_t	block;
	int			written;

	uuid_store(&block, words);
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (unlikely(!EVP_CipherUpdate(cipher, block.data, &written, block.data, UUID_LEN)))
			elog(ERROR, "AES failed");
		words = uuid_load(&block);
	} while (!uuid_is_version(words, UUID_VERSION_RANDOM));
	return words;
}

static UuidWords
permute(FunctionCallInfo fcinfo, UuidWords words, bool encrypt)
{
	return walk(cipher_of_key(fcinfo->flinfo, PG_GETARG_BYTEA_PP(1), encrypt),
				uuid_stamp(words, UUID_VERSION_RANDOM));
}

#else

static UuidWords
permute(FunctionCallInfo fcinfo, UuidWords words, bool encrypt)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("this server cannot mask keys"),
			 errdetail("The server was built without OpenSSL, or the extension without the headers of OpenSSL."),
			 errhint("Install the headers (Debian: libssl-dev), and build the extension again.")));
	return words;
}

#endif							/* HAVE_AES */

static unsigned
version_arg(int32 version)
{
	if (unlikely(version < VERSION_MIN || version > VERSION_MAX))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("version must be between %d and %d, not %d", VERSION_MIN, VERSION_MAX, version)));
	return (unsigned) version;
}

/* uuid_mask(id uuid, key bytea, version int) */
Datum
uuid_mask(PG_FUNCTION_ARGS)
{
	UuidWords	id = uuid_arg_of_version(PG_GETARG_DATUM(0), version_arg(PG_GETARG_INT32(2)));

	return uuid_datum(permute(fcinfo, id, true));
}

/* uuid_unmask(masked uuid, key bytea, version int) -> the id, which has that version */
Datum
uuid_unmask(PG_FUNCTION_ARGS)
{
	unsigned	version = version_arg(PG_GETARG_INT32(2));
	UuidWords	masked = uuid_arg_of_version(PG_GETARG_DATUM(0), UUID_VERSION_RANDOM);

	return uuid_datum(uuid_stamp(permute(fcinfo, masked, false), version));
}
