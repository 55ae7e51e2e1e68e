import { Type } from 'typebox'
import { toAbortSignal } from '../../../contracts/cancellation.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import type { VideoOutput } from '../../../contracts/generation.ts'
import { sleep } from '../../../contracts/time.ts'
import type { UpstreamStream } from '../../../contracts/upstream.ts'
import { traced } from '../../call/attempt/operation.ts'
import { run } from '../../call/pipeline.ts'
import { requirementsFor } from '../../call/select/eligibility.ts'
import { type Dependencies, endpoint } from '../endpoint.ts'
import { jsonReply, largeText } from '../json-reply.ts'
import { jsonRequest, optional, SEED_FIELD } from '../json-request.ts'
import { Videos } from '../openapi/answers.ts'
import { CALL_ERRORS, json } from '../openapi/operation.ts'

/** How long fetching a video may take with all its tries, ms: its caller has waited while it was made. */
const FETCH_MS = 120_000
const TRIES = 3
const PAUSE_MS = 1_000
const VIDEO_TYPE = /^video\/[a-z0-9.+-]{1,60}$/

type Keeping = Pick<Dependencies, 'services' | 'results'>

interface VideoCaller {
  readonly workspace: string
  /** Version of the route that made them. */
  readonly policyVersionId: string
  readonly traceparent: string | undefined
  readonly signal: AbortSignal
  readonly keepsNothing: boolean
  readonly onFinished: (release: () => void) => void
}

/**
 * Videos as the caller gets them. One that only our credential opens is fetched into the object store, or into the
 * answer where nothing may be kept.
 *
 * @throws GatewayError UPSTREAM_OUTCOME_UNKNOWN for a video that was made and cannot be had, so that no one
 *         orders it again without thinking; DEPENDENCY_UNAVAILABLE when the store fails; the signal's reason
 *         when the caller left
 */
async function videoBlocks(
  videos: readonly VideoOutput[],
  caller: VideoCaller,
  keeping: Keeping,
): Promise<object[]> {
  const blocks: object[] = []
  for (const video of videos) blocks.push(await blockOf(video, caller, keeping))
  return blocks
}

async function blockOf(video: VideoOutput, caller: VideoCaller, keeping: Keeping): Promise<object> {
  const type = 'output_video'
  if (video.kind === 'url') return { type, url: video.url, media_type: video.media_type }
  if (video.kind === 'base64') return { type, base64: largeText(video.base64), media_type: video.media_type }
  return { type, ...(await fetched(video, caller, keeping)) }
}

/** Members of the answer for a video that was fetched. */
interface Fetched {
  readonly url?: string
  readonly base64?: ReturnType<typeof largeText>
  readonly media_type: string
}

/** Every try but the last gets half of the time that is left, so that one that hangs does not use it up. */
async function fetched(
  video: VideoOutput & { kind: 'fetch' },
  caller: VideoCaller,
  keeping: Keeping,
): Promise<Fetched> {
  const { signal, policyVersionId } = caller
  const { clock, timing } = keeping.services
  const untilMs = clock.now() + FETCH_MS
  const pauseMs = timing?.resendMs ?? PAUSE_MS
  let cause: unknown
  for (let tries = 1; tries <= TRIES; tries += 1) {
    try {
      if (tries > 1) await sleep(clock, pauseMs * tries, { signal })
      const leftMs = untilMs - clock.now()
      return await fetchOnce(video, tries < TRIES ? leftMs / 2 : leftMs, caller, keeping)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof GatewayError && error.code === 'DEPENDENCY_UNAVAILABLE') throw error
      cause = error
    }
  }
  throw new GatewayError(
    'UPSTREAM_OUTCOME_UNKNOWN',
    'the video was made, but the provider does not hand it out',
    { cause, details: { policy_version_id: policyVersionId } },
  )
}

async function fetchOnce(
  { request, media_type }: VideoOutput & { kind: 'fetch' },
  deadlineMs: number,
  { workspace, traceparent, signal, keepsNothing, onFinished }: VideoCaller,
  { services, results }: Keeping,
): Promise<Fetched> {
  const context = traceparent === undefined ? undefined : { traceparent }
  const reply = await services.open(traced(request, context), { deadlineMs, signal })
  try {
    if (reply.status !== 200) throw new Error(`the provider answered ${reply.status}`)
    const mediaType = typeOf(reply) ?? media_type
    if (keepsNothing) {
      const { base64, release } = await results.hold(reply.chunks)
      onFinished(release)
      return { base64: largeText(base64), media_type: mediaType }
    }
    const url = await results.keep(reply.chunks, { workspace, mediaType, signal })
    return { url, media_type: mediaType }
  } finally {
    // The connection of an answer that is not read to its end would stay open.
    await reply.chunks[Symbol.asyncIterator]().return?.()
  }
}

function typeOf({ headers }: UpstreamStream): string | null {
  const said = headers['content-type']?.split(';')[0]?.trim().toLowerCase() ?? ''
  return VIDEO_TYPE.test(said) ? said : null
}

const VideoBody = Type.Object({
  prompt: Type.String({ minLength: 1, description: 'what is to be seen' }),
  duration_seconds: optional(
    Type.Number({ exclusiveMinimum: 0, maximum: 3600 }),
    'length, where the model can choose',
  ),
  size: optional(
    Type.String({
      pattern: '^[1-9]\\d{1,4}x[1-9]\\d{1,4}$',
      description: '`<width>x<height>`, e.g. 1280x720',
    }),
    'resolution, where the model can choose',
  ),
  seed: SEED_FIELD,
})

export const videoRequest = jsonRequest('video', VideoBody, (body) => ({
  prompt: body.prompt,
  duration_seconds: body.duration_seconds ?? null,
  size: body.size ?? null,
  seed: body.seed ?? null,
}))

export const video = endpoint({
  method: 'POST',
  path: '/v1/video',
  kind: 'call',
  id: 'video',
  tag: 'Generation',
  summary: 'Generate a video',
  description:
    'Waits until the video is ready. A video that only the gateway’s credential can open is stored for a day ' +
    'behind a signed URL, or is in the answer as base64 under `retention: zero`. A video is ordered once: ' +
    'if its outcome is unknown, it isn’t ordered again.',
  scope: 'inference',
  body: videoRequest,
  answers: [{ status: 200, description: 'the video', contents: [json(Videos)] }],
  errors: [...CALL_ERRORS, 'UPSTREAM_OUTCOME_UNKNOWN'],
  async handle({ exchange, context, deps, body: { call } }) {
    const outcome = await run(deps.services, context, { mode: 'whole', call })
    exchange.onFinished(outcome.release)
    const { envelope, result } = outcome
    const owner = {
      workspace: context.principal.workspace.id,
      policyVersionId: envelope.policy_version_id,
      traceparent: context.trace?.traceparent ?? context.traceparent,
      signal: toAbortSignal(context.signal),
      keepsNothing: requirementsFor(call.selectors, context.principal)?.retentionDays === 0,
      onFinished: (release: () => void) => void exchange.onFinished(release),
    }
    const content_blocks = await context.externalWait(
      videoBlocks(result.videos, owner, deps),
      deps.services.clock,
    )
    return jsonReply({ ...envelope, content_blocks })
  },
})
