import type { JsonObject } from '../../contracts/json.ts'
import type { Ending } from '../../contracts/provider.ts'
import type { Failure, UpstreamReply, UpstreamStream } from '../../contracts/upstream.ts'
import { classify, classifyInside, failed, unusable } from './failure.ts'
import { asObject, objectOf } from './json.ts'

export function isGood({ status }: Pick<UpstreamReply, 'status'>): boolean {
  return status >= 200 && status <= 299
}

/**
 * The JSON of a good answer, or what is wrong with it: a refusal by its status, a body that is no JSON, or an
 * error in an answer of 200, as proxies send it.
 */
export function goodObject(
  reply: UpstreamReply,
): { readonly body: JsonObject } | { readonly failure: Failure } {
  if (!isGood(reply)) return { failure: classify(reply) }
  const body = objectOf(reply)
  if (body === null) return { failure: unusable(reply, 'the answer of the provider is no JSON object') }
  const failure = errorInside(body, reply)
  return failure === null ? { body } : { failure }
}

/** A result, or why there is none. */
export type Made<Result> = { readonly result: Result } | Failure

/** The end of an operation. */
export function endingOf<Result>(made: Made<Result>): Ending<Result> {
  return 'result' in made ? { kind: 'done', result: made.result } : failed(made)
}

/** The end of an operation whose good answer is a JSON object. */
export function readEnding<Result>(
  reply: UpstreamReply,
  read: (body: JsonObject) => Made<Result>,
): Ending<Result> {
  const good = goodObject(reply)
  return endingOf('failure' in good ? good.failure : read(good.body))
}

/**
 * The error that an answer with a good status holds, streamed or whole; null when it holds none. Its code decides,
 * then a number in it that is a status (OpenRouter writes `code: 429`), else it is the provider's own trouble.
 */
export function errorInside(
  body: JsonObject,
  head: Pick<UpstreamReply, 'status' | 'headers'>,
): Failure | null {
  const error = asObject(body.error) ?? (typeof body.error === 'string' ? body.error : '')
  if (error === '') return null
  const { code, status } = asObject(error) ?? {}
  const given = [status, code].find((value) => typeof value === 'number' && value >= 400 && value <= 599)
  const meant = typeof given === 'number' ? given : 500
  return { ...classifyInside({ error }, { status: meant, headers: head.headers }), status: head.status }
}

/** A streamed answer that ended before it was whole. */
export function brokenOff({ status }: Pick<UpstreamStream, 'status'>): Failure {
  const reason = 'the provider broke the stream off'
  return { kind: 'ambiguous', status, reason, retryAfterMs: null, providerMessage: null }
}
