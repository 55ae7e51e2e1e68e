import type { VideoCall, VideoResult } from '../../contracts/generation.ts'
import type { JsonObject } from '../../contracts/json.ts'
import type { Provider, Target } from '../../contracts/provider.ts'
import type { Failure, FailureKind, UpstreamReply, UpstreamRequest } from '../../contracts/upstream.ts'
import type { Made } from './answer.ts'
import { asObject, objectOf } from './json.ts'
import { modelList } from './model-list.ts'
import { quantityOf } from './numbers.ts'
import { videoJobOperation, videoLost } from './video-job.ts'

const VERSION = '2024-11-06'

/** Runway asks not to be polled faster. */
const POLL_MS = 5_000

/** Models that must be told the frame, and those that must be told the length too; the others have defaults. */
const NEEDS_RATIO = /^(?:gen4|veo)/
const NEEDS_DURATION = /^gen4/
const DEFAULT_RATIO = '1280:720'
const DEFAULT_SECONDS = 5

/** Models whose frame is a ratio by name and not a size in pixels. */
const NAMED_RATIOS = /^(?:hailuo|grok_imagine)/

/** Models whose interface takes a seed. */
const SEEDED = /^(?:gen4|veo|seedance)/
const SEED_MAX = 2 ** 32 - 1

/** States in which there is nothing to do but wait; THROTTLED is Runway's own queue. */
const WAITING: ReadonlySet<unknown> = new Set(['PENDING', 'THROTTLED', 'RUNNING'])

/**
 * Beginnings of failure codes and what they mean; anything else is Runway's own trouble.
 * https://docs.dev.runwayml.com/errors/task-failures/
 */
const KIND_OF_CODE: readonly (readonly [beginning: string, kind: FailureKind])[] = [
  ['SAFETY.', 'content'],
  ['INPUT_PREPROCESSING.SAFETY.', 'content'],
  ['ASSET.INVALID', 'caller'],
]

/** Longest complaint that is kept for the log, UTF-16 units. */
const SAID_MAX_LENGTH = 500

/** @runwayml/sdk 4.20.1, `resources/text-to-video.d.ts` and `tasks.d.ts` */
const video = videoJobOperation({
  takesSeed: true,
  pollMs: POLL_MS,
  tellsAtOnce: false,
  order(call, target) {
    const body = encodeTask(call, target)
    if (typeof body === 'string') return body
    return {
      method: 'POST',
      url: `${target.baseUrl}/text_to_video`,
      headers: { ...runwayHeaders(target), 'content-type': 'application/json' },
      body: [Buffer.from(JSON.stringify(body))],
    }
  },
  look: (id, target) => taskRequest('GET', id, target),
  cancel: (id, target) => taskRequest('DELETE', id, target),
  read: readTask,
})

/** There is no list of models: the organization needs the credential and costs nothing. */
const models = modelList({ path: '/organization', headers: runwayHeaders, names: () => [] })

/** https://docs.dev.runwayml.com/api/ */
export const runway: Provider = {
  kind: 'runway',
  baseUrl: 'https://api.dev.runwayml.com/v1',
  needsCredential: true,
  video,
  models,
}

/** The body of an order, or why it cannot be made, for the log. */
function encodeTask(
  { prompt, size, duration_seconds: asked, seed }: VideoCall,
  { model }: Target,
): JsonObject | string {
  const ratio = size === null ? defaultRatio(model) : ratioOf(size, model)
  if (size !== null && ratio === null) return 'size: must be <width>x<height> for this provider'
  const sent = SEEDED.test(model) ? seed : null
  if (sent !== null && !(sent >= 0 && sent <= SEED_MAX))
    return `seed: must be 0 to ${SEED_MAX} for this provider`
  const duration = asked ?? (NEEDS_DURATION.test(model) ? DEFAULT_SECONDS : null)
  return {
    model,
    promptText: prompt,
    ...(ratio === null ? {} : { ratio }),
    ...(duration === null ? {} : { duration }),
    ...(sent === null ? {} : { seed: sent }),
  }
}

function defaultRatio(model: string): string | null {
  return NEEDS_RATIO.test(model) ? DEFAULT_RATIO : null
}

/** `1280x720` → `1280:720`, or `16:9` for the models that name the frame so; null for anything else. */
function ratioOf(size: string, model: string): string | null {
  const [, width, height] = /^([1-9]\d{1,4})x([1-9]\d{1,4})$/.exec(size) ?? []
  if (width === undefined || height === undefined) return null
  if (!NAMED_RATIOS.test(model)) return `${width}:${height}`
  const divisor = commonDivisor(Number(width), Number(height))
  return `${Number(width) / divisor}:${Number(height) / divisor}`
}

function commonDivisor(a: number, b: number): number {
  return b === 0 ? a : commonDivisor(b, a % b)
}

function runwayHeaders({ credential }: Target): Record<string, string> {
  const authorization = credential === null ? {} : { authorization: `Bearer ${credential}` }
  return { accept: 'application/json', ...authorization, 'x-runway-version': VERSION }
}

function taskRequest(method: 'GET' | 'DELETE', id: string, target: Target): UpstreamRequest {
  const url = `${target.baseUrl}/tasks/${encodeURIComponent(id)}`
  return { method, url, headers: runwayHeaders(target), body: [] }
}

function readTask(reply: UpstreamReply, call: VideoCall, target: Target): Made<VideoResult> | null {
  const body = objectOf(reply) ?? {}
  if (WAITING.has(body.status)) return null
  if (body.status === 'FAILED' || body.status === 'CANCELLED') return taskFailure(body, reply)
  const urls = Array.isArray(body.output) ? body.output.filter(isUrl) : []
  if (body.status !== 'SUCCEEDED' || urls.length === 0) return videoLost(reply)
  const seedless = call.seed !== null && !SEEDED.test(target.model)
  const result = {
    videos: urls.map((url) => ({ kind: 'url', url, media_type: 'video/mp4' }) as const),
    seconds: null,
    credits: quantityOf(asObject(body.cost)?.credits),
    warnings: seedless ? [`seed: ${target.model} does not take it; it was left out`] : [],
  }
  return { result }
}

function isUrl(value: unknown): value is string {
  return typeof value === 'string' && value.startsWith('https://')
}

function taskFailure({ failure, failureCode: code, status }: JsonObject, reply: UpstreamReply): Failure {
  const kind = KIND_OF_CODE.find(([beginning]) => typeof code === 'string' && code.startsWith(beginning))?.[1]
  const reasons: Partial<Record<FailureKind, string>> = {
    content: 'the provider refused the content',
    caller: 'the provider refused the request',
  }
  const said = [code, failure].filter((word) => typeof word === 'string').join(': ')
  return {
    kind: kind ?? 'server',
    status: reply.status,
    reason:
      reasons[kind ?? 'server'] ?? (status === 'CANCELLED' ? 'the task was cancelled' : 'the task failed'),
    retryAfterMs: null,
    providerMessage: said === '' ? null : said.slice(0, SAID_MAX_LENGTH),
  }
}
