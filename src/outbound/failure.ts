import type { Failure } from '../schema/upstream.ts'

export class DeadlinePassed extends Error {
  override readonly name = 'DeadlinePassed'
}

/** The answer is over what may be held of one. */
export class ReplyTooLarge extends Error {
  override readonly name = 'ReplyTooLarge'
}

/** The answer is compressed, which no request asks for. */
export class ReplyEncoded extends Error {
  override readonly name = 'ReplyEncoded'
}

/**
 * What it means for the attempt that its request ended with `cause` instead of an answer.
 *
 * @param begun whether it had a connection: without one the provider cannot have done anything
 */
export function toFailure(cause: unknown, begun: boolean): Failure {
  const plain = { status: null, retryAfterMs: null, providerMessage: null }
  if (cause instanceof DeadlinePassed)
    return { ...plain, kind: 'ambiguous', reason: 'no answer before its deadline' }
  if (cause instanceof ReplyTooLarge) return { ...plain, kind: 'server', reason: 'its answer is over 64 MiB' }
  if (cause instanceof ReplyEncoded) return { ...plain, kind: 'server', reason: 'its answer is compressed' }
  if (!begun) return { ...plain, kind: 'connect', reason: 'no connection' }
  return { ...plain, kind: 'ambiguous', reason: 'the connection broke' }
}
