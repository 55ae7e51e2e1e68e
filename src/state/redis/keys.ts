/**
 * Every key that Larkway writes to Redis. What stands in braces is the hash tag of a cluster: keys that one script
 * touches together share it.
 */
export const keys = {
  /** The token bucket of an API key, by the key's id. */
  bucket: (keyId: string) => `lk:rate:{${keyId}}`,
}
