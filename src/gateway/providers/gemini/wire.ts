import type { JsonObject } from '../../../contracts/json.ts'
import type { Operation, Target } from '../../../contracts/provider.ts'
import type { Piece, UpstreamRequest } from '../../../contracts/upstream.ts'
import { goodObject } from '../answer.ts'
import { failed, unusable } from '../failure.ts'
import { objectsIn } from '../json.ts'

/** Pages of the list of models that are read; a page has up to 1000. */
const MODEL_PAGES_MAX = 10

export function headersOf({ credential }: Target): Record<string, string> {
  return credential === null ? {} : { 'x-goog-api-key': credential }
}

/** The URL of a method of the target's model, e.g. `generateContent`. */
export function methodUrl({ baseUrl, model }: Target, method: string): string {
  return `${baseUrl}/models/${encodeURIComponent(model)}:${method}`
}

/** A POST of JSON that is already written, in pieces, since it has audio in the middle. */
export function postPieces(target: Target, url: string, body: readonly Piece[]): UpstreamRequest {
  return { method: 'POST', url, headers: { ...headersOf(target), 'content-type': 'application/json' }, body }
}

export function postJson(target: Target, url: string, body: JsonObject): UpstreamRequest {
  return postPieces(target, url, [Buffer.from(JSON.stringify(body))])
}

export function getRequest(target: Target, url: string): UpstreamRequest {
  return { method: 'GET', url, headers: headersOf(target), body: [] }
}

/** `GET /models`, https://ai.google.dev/api/models: names come as `models/<model>`, in pages. */
export const modelsOperation: Operation<null, readonly string[]> = {
  start: (_call, target) => ({
    kind: 'send',
    request: getRequest(target, modelsUrl(target, null)),
    state: [],
  }),
  next(state, reply, _call, target) {
    const answer = goodObject(reply)
    if ('failure' in answer) return failed(answer.failure)
    const { models, nextPageToken: token } = answer.body
    if (!Array.isArray(models))
      return failed(unusable(reply, 'the answer of the provider is no list of models'))
    const names = objectsIn(models).flatMap(({ name }) => (typeof name === 'string' ? [name] : []))
    const pages = [...(state as readonly string[][]), names.map((name) => name.replace(/^models\//, ''))]
    const more = typeof token === 'string' && token !== '' && token.isWellFormed()
    if (!more || pages.length >= MODEL_PAGES_MAX) return { kind: 'done', result: pages.flat() }
    return { kind: 'send', request: getRequest(target, modelsUrl(target, token)), state: pages }
  },
}

function modelsUrl({ baseUrl }: Target, token: string | null): string {
  return `${baseUrl}/models?pageSize=1000${token === null ? '' : `&pageToken=${encodeURIComponent(token)}`}`
}
