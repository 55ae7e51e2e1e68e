import { hash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { newId } from '../../contracts/ids.ts'
import type { FormerKey, StoredKey } from '../../contracts/stored-keys.ts'

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const SHAPE = /^lk_live_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$/
/** Length of `_` and the check digits. */
const CHECK_LENGTH = 7
const PREFIX_LENGTH = 12
/** Characters of a key. */
export const KEY_LENGTH = 58

/**
 * A new API key, `lk_live_<43 base62>_<6 base62>`: 256 random bits, and the CRC-32 of all that stands before the last
 * underscore. The check digits tell a mistyped key from a revoked one without a look-up, and let secret scanners
 * recognize a leaked one.
 */
export function makeKey(): string {
  const random = BigInt(`0x${randomBytes(32).toString('hex')}`)
  const body = `lk_live_${base62(random, 43)}`
  return `${body}_${checkOf(body)}`
}

/** Whether the text has the shape and the check digits of a key. Says nothing about whether the key is in use. */
export function looksLikeKey(text: string): boolean {
  if (!SHAPE.test(text)) return false
  const body = text.slice(0, -CHECK_LENGTH)
  return text.slice(1 - CHECK_LENGTH) === checkOf(body)
}

/** SHA-256 in lower-case hex: all that is ever stored of a key. 256 random bits need no slow hash. */
export function hashKey(key: string): string {
  return hash('sha256', key)
}

/** The part of a key that logs and pages may show. */
export function keyPrefix(key: string): string {
  return key.slice(0, PREFIX_LENGTH)
}

function checkOf(body: string): string {
  let text = ''
  // 62^6 passes 2^32, so that plain numbers do; every request's key comes through here.
  for (let rest = crc32(body); text.length < 6; rest = Math.floor(rest / 62))
    text = DIGITS.charAt(rest % 62) + text
  return text
}

/** Base62, most significant digit first, padded with zeros to `length` digits. */
function base62(value: bigint, length: number): string {
  let text = ''
  for (let rest = value; rest > 0n; rest /= 62n) text = DIGITS.charAt(Number(rest % 62n)) + text
  return text.padStart(length, '0')
}

/** Bounds of keys, wherever they are made. */
export const KEY_NAME_MAX = 1024
export const REQUESTS_PER_MINUTE_MAX = 100_000_000
/** Most tokens, or seconds of audio, a minute. */
export const UNITS_PER_MINUTE_MAX = 1_000_000_000
export const BURST_MAX = 100_000

/** Settings of a new key that the caller chooses. @param name null: its id */
type KeySettings = Omit<StoredKey, 'id' | 'sha256' | 'prefix' | 'name' | 'createdAtMs' | 'revokedAtMs'> & {
  readonly name: string | null
}

/** A key as its owner has it, and what is kept of it. The key itself is nowhere else. */
interface NewKey {
  readonly plain: string
  readonly stored: StoredKey
}

/** Makes a key, which is unknown until it is stored. */
export function newKey({ name, ...settings }: KeySettings, nowMs: number): NewKey {
  // Told by their ids alone: a record of usage outlives the key that it names.
  const id = newId(settings.kind === 'playground' ? 'pgk' : 'key')
  const { plain, kept } = newSecret()
  return {
    plain,
    stored: { ...settings, id, ...kept, name: name ?? id, createdAtMs: nowMs, revokedAtMs: null },
  }
}

/** Whether a key opens anything: it is neither revoked nor expired. */
export function isValid(
  { revokedAtMs, expiresAtMs }: Pick<StoredKey, 'revokedAtMs' | 'expiresAtMs'>,
  nowMs: number,
): boolean {
  return revokedAtMs === null && (expiresAtMs === null || expiresAtMs > nowMs)
}

/** Until when the secret is taken that a key had before: until the key itself ends at the latest. */
export function formerUntilMs(
  { untilMs }: FormerKey,
  { expiresAtMs }: Pick<StoredKey, 'expiresAtMs'>,
): number {
  return Math.min(untilMs, expiresAtMs ?? untilMs)
}

/** The secret that a key had before, and until when it is taken; null: it is not, or not any more. */
export function formerInForce(
  key: Pick<StoredKey, 'revokedAtMs' | 'expiresAtMs' | 'former'>,
  nowMs: number,
): FormerKey | null {
  const { former } = key
  if (former === undefined || !isValid(key, nowMs)) return null
  const untilMs = formerUntilMs(former, key)
  return untilMs > nowMs ? { ...former, untilMs } : null
}

/** A key as it is sent, and what is kept of that. */
export function newSecret(): {
  readonly plain: string
  readonly kept: Pick<StoredKey, 'sha256' | 'prefix'>
} {
  const plain = makeKey()
  return { plain, kept: { sha256: hashKey(plain), prefix: keyPrefix(plain) } }
}

/** Control characters, and those that turn the direction of a text: with them a name looks like another. */
const UNSEEN = /[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u

export function hasUnseen(text: string): boolean {
  return UNSEEN.test(text)
}

/** A name is shown on a single line in lists. */
export function isKeyName(text: string): boolean {
  return text.trim() !== '' && text.length <= KEY_NAME_MAX && !hasUnseen(text)
}
