import { newId } from '../../src/contracts/ids.ts'
import type { StoredKey } from '../../src/contracts/stored-keys.ts'
import { hashKey, keyPrefix, makeKey } from '../../src/gateway/catalog/key.ts'

/** A key of app `web` of workspace `acme`, as the state keeps it. */
export function storedKey(over: Partial<StoredKey> = {}): StoredKey {
  const plain = makeKey()
  return {
    id: newId('key'),
    sha256: hashKey(plain),
    prefix: keyPrefix(plain),
    workspace: 'acme',
    app: 'web',
    name: 'mobile',
    scopes: ['inference'],
    rateLimit: null,
    budgetMicros: null,
    expiresAtMs: null,
    createdAtMs: Date.now(),
    revokedAtMs: null,
    ...over,
  }
}
