import type { Failure } from '../schema/upstream.ts'

export class DeadlinePassed extends Error {
  override readonly name = 'DeadlinePassed'
}

/** The answer is over what may be held of one. */
export class ReplyTooLarge extends Error {
  override readonly name = 'ReplyTooLarge'
}

/** Codes of failures before the first byte of the request left: the provider cannot have done anything. */
const CONNECT_CODES = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'CERT_HAS_EXPIRED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'ERR_TLS_CERT_ALTNAME_INVALID',
])

/** What it means for the attempt that its request ended with `cause` instead of an answer. */
export function toFailure(cause: unknown): Failure {
  const plain = { status: null, retryAfterMs: null, providerMessage: null }
  if (cause instanceof DeadlinePassed)
    return { ...plain, kind: 'ambiguous', reason: 'no answer before its deadline' }
  if (cause instanceof ReplyTooLarge) return { ...plain, kind: 'server', reason: 'its answer is over 64 MiB' }
  if (CONNECT_CODES.has(codeOf(cause))) return { ...plain, kind: 'connect', reason: 'no connection' }
  return { ...plain, kind: 'ambiguous', reason: 'the connection broke' }
}

function codeOf(cause: unknown): string {
  const { code, errors } = cause as { code?: unknown; errors?: unknown[] }
  if (typeof code === 'string') return code
  return Array.isArray(errors) && errors.length > 0 ? codeOf(errors[0]) : ''
}
