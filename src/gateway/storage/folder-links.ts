import { createHmac, timingSafeEqual } from 'node:crypto'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import type { Links, OpenedLink } from '../../contracts/links.ts'
import { type Clock, systemClock } from '../../contracts/time.ts'

/** Signs and opens URLs of objects in the folder store. */
export interface FolderLinks extends Links {
  /** Finds the object of a token; null when it is forged or expired. */
  open(token: string): OpenedLink | null
}

export interface FolderLinksOptions {
  /** The first signs, all verify. */
  readonly keys: readonly Buffer[]
  /** Origin under which callers reach this node; undefined: URLs are paths. */
  readonly publicUrl: string | undefined
  readonly clock?: Clock
}

/** Claims of a token: key, bytes, media type, expiry in epoch seconds with a fraction. */
const Claims = Type.Tuple([Type.String(), Type.Integer({ minimum: 0 }), Type.String(), Type.Number()])
/** Keeps these signatures apart from all others that the same keys make. */
const PURPOSE = 'larkway result 1\n'
const TOKEN_MAX_LENGTH = 1024
const TOKEN = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)$/

/** Signed URLs for a store that has none of its own: `/results/<claims>.<HMAC-SHA256>`, both base64url. */
export function createFolderLinks({
  keys,
  publicUrl = '',
  clock = systemClock,
}: FolderLinksOptions): FolderLinks {
  const [first] = keys
  if (first === undefined) throw new Error('storage: signed URLs need a key')
  return {
    async sign({ key, bytes, mediaType }, endsAtSeconds) {
      const claims = [key, bytes, mediaType, endsAtSeconds]
      const text = Buffer.from(JSON.stringify(claims)).toString('base64url')
      return `${publicUrl}/results/${text}.${signature(first, text)}`
    },
    open(token) {
      const [, text, proof] = TOKEN.exec(token) ?? []
      if (text === undefined || proof === undefined || token.length > TOKEN_MAX_LENGTH) return null
      if (!keys.some((key) => isEqual(signature(key, text), proof))) return null
      const claims: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
      if (!Value.Check(Claims, claims)) return null
      const [key, bytes, mediaType, endsAt] = claims
      const leftSeconds = endsAt - clock.wallNow() / 1000
      return leftSeconds > 0 ? { key, bytes, mediaType, leftSeconds } : null
    },
  }
}

function signature(key: Buffer, text: string): string {
  return createHmac('sha256', key).update(PURPOSE).update(text).digest('base64url')
}

/** As texts: of the bytes that base64url decodes to, several texts would do. */
function isEqual(one: string, other: string): boolean {
  return one.length === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other))
}
