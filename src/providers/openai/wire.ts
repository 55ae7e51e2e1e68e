import type { JsonObject } from '../../schema/json.ts'
import type { Operation, Target } from '../../schema/provider.ts'
import type { UpstreamRequest } from '../../schema/upstream.ts'
import { idsIn, objectOf } from '../json.ts'
import { modelList } from '../model-list.ts'

/** Headers that a provider adds to each of its requests. */
export type ExtraHeaders = (target: Target) => Readonly<Record<string, string>>

/** Headers of every call. */
export function headersOf(target: Target, extra: ExtraHeaders): Record<string, string> {
  const authorization = target.credential === null ? {} : { authorization: `Bearer ${target.credential}` }
  return { accept: '*/*', ...authorization, ...extra(target) }
}

/** A POST of JSON to a path below the target's base URL. */
export function jsonRequest(
  target: Target,
  path: string,
  body: JsonObject,
  extra: ExtraHeaders,
): UpstreamRequest {
  return {
    method: 'POST',
    url: `${target.baseUrl}${path}`,
    headers: { ...headersOf(target, extra), 'content-type': 'application/json' },
    body: [Buffer.from(JSON.stringify(body))],
  }
}

/** `GET /models` */
export function modelsOperation(extra: ExtraHeaders): Operation<null, readonly string[]> {
  return modelList({
    path: '/models',
    headers: (target) => headersOf(target, extra),
    names: (reply) => idsIn(objectOf(reply)?.data),
  })
}
