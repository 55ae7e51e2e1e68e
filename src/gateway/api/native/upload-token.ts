import { seal, unseal } from '../../../contracts/sealing.ts'
import { authenticateGrant, bearerIn } from '../../call/authentication.ts'
import type { Dependencies, GrantAuthentication } from '../endpoint.ts'

const PREFIX = 'ut_'
/** Much longer than any that is made: nothing longer is looked into. */
const TOKEN_LENGTH_MAX = 1_000
const SEALED_FOR = { purpose: 'upload token', workspace: '' }

/** Terms of an upload token, sealed in the token itself, so that every node can read them. */
export interface UploadToken {
  /** Names the one upload that it makes and adds to. */
  readonly id: string
  /** SHA-256 of the key for which it stands, which has to be in force. */
  readonly keySha256: string
  readonly maxBytes: number
  /** Epoch milliseconds. */
  readonly expiresAtMs: number
}

export function sealToken(secretKeys: readonly Buffer[], token: UploadToken): string {
  return PREFIX + seal(secretKeys, JSON.stringify(token), SEALED_FOR)
}

/** Admits whoever has an upload token in place of a key. */
export const authenticateToken: GrantAuthentication = (authorization, context, deps) => {
  if (!bearerIn(authorization).startsWith(PREFIX)) return null
  const token = tokenIn(authorization, deps)
  return authenticateGrant(deps.services, context, token?.keySha256 ?? null)
}

/** Terms of the token in a header that is in force; null: there is none. */
export function tokenIn(
  authorization: string | undefined,
  { secretKeys, services }: Pick<Dependencies, 'secretKeys' | 'services'>,
): UploadToken | null {
  const sent = bearerIn(authorization)
  if (!sent.startsWith(PREFIX) || sent.length > TOKEN_LENGTH_MAX) return null
  const plain = unseal(secretKeys, sent.slice(PREFIX.length), SEALED_FOR)
  if (plain === null) return null
  const token = JSON.parse(plain) as UploadToken
  return token.expiresAtMs > services.clock.wallNow() ? token : null
}
