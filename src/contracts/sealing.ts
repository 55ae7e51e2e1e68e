import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

/** Purpose and owner of a sealed text: it cannot be opened for any other. */
export interface SealContext {
  readonly purpose: string
  readonly workspace: string
}

const CIPHER = 'aes-256-gcm'
/** Keeps the keys of this use apart from all others that are made of the same secret. */
const DERIVATION = 'larkway sealing 1'
const KEY_BYTES = 32
const KEY_ID_BYTES = 4
/** Random nonces of 96 bits do for 2^32 texts under one key (NIST SP 800-38D, section 8.3). */
const NONCE_BYTES = 12
const TAG_BYTES = 16
/** Version, key id, then nonce, tag and ciphertext in base64url. */
const SEALED = /^sealed1\.([0-9a-f]{8})\.([A-Za-z0-9_-]+)$/

interface SealingKey {
  readonly id: string
  readonly key: Buffer
}

/**
 * Encrypts a secret that is kept in the state: `sealed1.<key id>.<base64url>`, AES-256-GCM with a nonce of its own.
 *
 * @param keys of 32 bytes, as `readSecretKeys` returns them; the first one encrypts
 * @throws Error without a key; never with a part of a secret
 */
export function seal(keys: readonly Buffer[], plain: string, context: SealContext): string {
  const [secret] = keys
  if (secret === undefined) throw new Error('sealing needs a key')
  const { id, key } = sealingKey(secret)
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES }).setAAD(additional(context))
  const ciphertext = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()])
  return `sealed1.${id}.${Buffer.concat([nonce, cipher.getAuthTag(), ciphertext]).toString('base64url')}`
}

/**
 * Opens a text that was sealed by any of the keys for this very context. Null for another context, an altered text, or
 * one whose key is no longer among them. Never throws.
 */
export function unseal(keys: readonly Buffer[], sealed: string, context: SealContext): string | null {
  const [, id, text = ''] = SEALED.exec(sealed) ?? []
  const bytes = Buffer.from(text, 'base64url')
  // Several texts decode to the same bytes; only the one that was made is taken.
  if (bytes.length < NONCE_BYTES + TAG_BYTES || bytes.toString('base64url') !== text) return null
  for (const secret of keys) {
    const sealing = sealingKey(secret)
    // Two keys may have the same id, so the next one is tried too.
    const plain = sealing.id === id ? decrypt(sealing.key, bytes, context) : null
    if (plain !== null) return plain
  }
  return null
}

/** The same text under the first of the keys; as it is where that one opens it, null where none does. */
export function resealed(keys: readonly Buffer[], sealed: string, context: SealContext): string | null {
  if (unseal(keys.slice(0, 1), sealed, context) !== null) return sealed
  const plain = unseal(keys, sealed, context)
  return plain === null ? null : seal(keys, plain, context)
}

function decrypt(key: Buffer, bytes: Buffer, context: SealContext): string | null {
  const nonce = bytes.subarray(0, NONCE_BYTES)
  const tag = bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES)
  try {
    const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
    decipher.setAAD(additional(context)).setAuthTag(tag)
    const ciphertext = bytes.subarray(NONCE_BYTES + TAG_BYTES)
    return Buffer.concat([decipher.update(ciphertext), decipher.final()]).toString('utf8')
  } catch {
    // The tag does not fit; `final` has no other way to say so.
    return null
  }
}

/** The key that encrypts, and the id by which a sealed text names it: of one expansion, so neither tells the other. */
function sealingKey(secret: Buffer): SealingKey {
  const derived = Buffer.from(hkdfSync('sha256', secret, '', DERIVATION, KEY_BYTES + KEY_ID_BYTES))
  return { key: derived.subarray(0, KEY_BYTES), id: derived.toString('hex', KEY_BYTES) }
}

/** As JSON: whatever a member contains, two contexts never have the same bytes. */
function additional({ purpose, workspace }: SealContext): Buffer {
  return Buffer.from(JSON.stringify([purpose, workspace]))
}
