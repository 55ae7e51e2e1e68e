import { newId } from '../ids.ts'
import type { StoredKey } from '../schema/stored-keys.ts'
import { hashKey, keyPrefix, makeKey } from './key.ts'

/** As the configuration has them. */
export const KEY_NAME_MAX = 1024
export const REQUESTS_PER_MINUTE_MAX = 100_000_000
export const BURST_MAX = 100_000

/** What is chosen of a new key. @param name null: its id */
export type KeySettings = Omit<
  StoredKey,
  'id' | 'sha256' | 'prefix' | 'name' | 'createdAtMs' | 'revokedAtMs'
> & {
  readonly name: string | null
}

/** A key as its owner has it, and what is kept of it. The key itself is nowhere else. */
export interface NewKey {
  readonly plain: string
  readonly stored: StoredKey
}

/** Makes a key; nobody knows it until it is stored. */
export function newKey({ name, ...settings }: KeySettings, nowMs: number): NewKey {
  const id = newId('key')
  const plain = makeKey()
  const kept = { id, sha256: hashKey(plain), prefix: keyPrefix(plain), name: name ?? id }
  return { plain, stored: { ...settings, ...kept, createdAtMs: nowMs, revokedAtMs: null } }
}

/** Control characters, and those that turn the direction of a text: with them a name looks like another. */
const UNSEEN = /[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u

export function hasUnseen(text: string): boolean {
  return UNSEEN.test(text)
}

/** Names stand in lists, on lines of their own. */
export function isKeyName(text: string): boolean {
  return text.trim() !== '' && text.length <= KEY_NAME_MAX && !hasUnseen(text)
}
