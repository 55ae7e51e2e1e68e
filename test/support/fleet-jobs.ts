import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { Timing } from '../../src/gateway/node/timing.ts'
import type { TenantsOptions } from './fleet.ts'
import { serveHttp } from './http-server.ts'
import { filledWav } from './wav.ts'

/**
 * A lease is long enough that none runs out under a worker that lives, on a busy machine, too; what a dead one held is
 * taken over in a third of the time that a deployment waits.
 */
export const JOB_TIMING: Timing = {
  jobs: { leaseMs: 10_000, renewMs: 2_000 },
  deliveries: { leaseMs: 20_000 },
}

/**
 * For one process that is killed several times within seconds: with a shorter lease one job would meet three of the
 * kills, and be given up as one that kills its workers.
 */
export const KILLED_JOB_TIMING: Timing = { deliveries: { leaseMs: 20_000 } }

type Fields = Readonly<Record<string, unknown>>

/** Half a second of silence. */
const AUDIO = filledWav(4_000, 0, 4_000)

export interface JobTenantsOptions {
  /** Base URL of a provider in OpenAI's format. */
  readonly upstreamUrl: string
  /** How many; default: one. */
  readonly workspaces?: number
  /** Further members of the provider, such as another kind. */
  readonly provider?: Fields
  /** Further members of the one entry of each route, such as a price. */
  readonly entry?: Fields
  /** Further members of each workspace, such as credits. */
  readonly terms?: Fields
}

/** Workspaces `ws_0`, … whose routes all lead to the one provider `hears`, and whose keys may do everything. */
export function jobTenants(options: JobTenantsOptions): TenantsOptions {
  const { upstreamUrl, workspaces = 1, provider = {}, entry = {}, terms = {} } = options
  const platform = { kind: 'openai-compatible', access: 'platform', price: { per_hour_usd: 0 } }
  const workspace = {
    entries: [{ provider: 'hears', model: 'whisper-1', ...entry }],
    key: { scopes: ['inference', 'jobs', 'queue', 'admin'] },
    terms,
  }
  return {
    providers: { hears: { ...platform, base_url: upstreamUrl, ...provider } },
    workspaces: Object.fromEntries(Array.from({ length: workspaces }, (_, at) => [`ws_${at}`, workspace])),
  }
}

/** What is handed in, and what is to be known of it. */
export interface Submission {
  readonly path: '/v1/transcription/jobs' | '/v1/queue'
  readonly contentType: string
  readonly body: Uint8Array | string
}

/** A transcription job of this wav. */
export function hearing(wav: Buffer = AUDIO): Submission {
  return { path: '/v1/transcription/jobs', contentType: 'audio/wav', body: new Uint8Array(wav) }
}

/** A queue job: a chat of one message. */
export function chatting(content: string, maxTokens: number): Submission {
  const payload = { messages: [{ role: 'user', content }], max_tokens: maxTokens }
  const body = JSON.stringify({ endpoint: 'chat', payload })
  return { path: '/v1/queue', contentType: 'application/json', body }
}

interface Accepted {
  readonly job_id?: string
  readonly job?: { readonly id: string }
  readonly error?: { readonly code: string }
}

/**
 * Hands a job in until the server takes it: asked again with its key, it is the same job.
 *
 * @param onRefused told of each answer that is to be asked again: `503 DEPENDENCY_UNAVAILABLE`
 * @returns its id
 */
export async function submitJob(
  url: () => string,
  authorization: string,
  { path, contentType, body }: Submission = hearing(),
  onRefused: (answer: string) => void = () => {},
): Promise<string> {
  const key = randomUUID()
  const headers = { authorization, 'content-type': contentType, 'idempotency-key': key }
  for (;;) {
    try {
      const response = await fetch(url() + path, {
        method: 'POST',
        headers,
        body: body as NonNullable<RequestInit['body']>,
      })
      const answer = (await response.json()) as Accepted
      const id = answer.job_id ?? answer.job?.id
      if (id !== undefined) return id
      if (response.status < 500) throw new Error(`a job was refused: ${JSON.stringify(answer)}`)
      onRefused(`${response.status} ${answer.error?.code}`)
    } catch (error) {
      // A server that is killed breaks its connections.
      if (!(error instanceof TypeError)) throw error
    }
    await sleep(50)
  }
}

/** Has the end of every job of a workspace told to this address. */
export async function setWebhook(
  serverUrl: string,
  workspace: string,
  authorization: string,
  url: string,
): Promise<void> {
  const response = await fetch(`${serverUrl}/workspace/${workspace}/stt-webhook`, {
    method: 'PUT',
    headers: { authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ url }),
  })
  if (!response.ok) throw new Error(`the webhook of ${workspace} was refused: ${await response.text()}`)
}

/** A target of webhooks. */
export interface Bell {
  /** As a webhook's URL. */
  readonly url: string
  /** Job id → what it was told of the job, in order. */
  readonly told: ReadonlyMap<string, readonly string[]>
  /** How long it takes to answer, ms. */
  answerAfterMs: number
}

/** Receives the webhooks of real processes until the test ends. */
export async function startBell(t: Pick<Test, 'teardown'>): Promise<Bell> {
  const told = new Map<string, string[]>()
  const bell = { url: '', told, answerAfterMs: 0 }
  const origin = await serveHttp(t, (request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (chunk) => {
      text += chunk
    })
    request.on('end', () => {
      const { job_id: id, status } = JSON.parse(text) as { job_id: string; status: string }
      told.set(id, [...(told.get(id) ?? []), status])
      setTimeout(() => response.end('ok'), bell.answerAfterMs)
    })
  })
  bell.url = `${origin}/jobs`
  return bell
}
