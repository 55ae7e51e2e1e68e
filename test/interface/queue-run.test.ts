import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { CommandFailure } from '../../src/cli/arguments.ts'
import { credits } from '../../src/cli/credits.ts'
import { jobs } from '../../src/cli/jobs.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { openState } from '../../src/gateway/node/stores.ts'
import { type ReceivedCall, startSandbox } from '../../src/sandbox/server.ts'

import { speak } from '../../src/sandbox/speak.ts'
import { type Larkway, startLarkway } from '../support/larkway.ts'
import { startRedis } from '../support/redis-server.ts'
import { withoutServers } from '../support/servers.ts'
import { NO_TERMS } from '../support/state-under-test.ts'
import { waitUntil } from '../support/wait-until.ts'

interface Answer {
  readonly status: number
  readonly body: { readonly job?: { readonly id: string }; readonly error?: { readonly code: string } }
}

/** A gateway process whose one route leads to a sandbox with faults on order, at prices that can be told apart. */
interface Node extends Larkway {
  enqueue(endpoint: string, payload: object, more?: object): Promise<string>
  post(path: string, body: object): Promise<Answer>
  /** The log line of the job's last claim, once it has ended as it should. */
  ended(id: string, status?: string): Promise<Readonly<Record<string, unknown>>>
  calls(): Promise<readonly ReceivedCall[]>
  /** Output of a command that looks into the node's state from another process, which is this one. */
  printed(command: typeof jobs, ...args: string[]): Promise<string>
}

interface NodeOptions {
  /** Options of the entries of the route. */
  readonly entries?: readonly object[]
  readonly env?: Readonly<Record<string, string>>
  readonly dataFolder?: string
}

const PRICE = {
  per_hour_usd: 3.6,
  per_1k_characters_usd: 1,
  per_1m_input_tokens_usd: 1000,
  per_1m_output_tokens_usd: 1000,
  per_image_usd: 0.01,
  per_video_second_usd: 0.1,
}

async function startNode(t: Test, { entries = [{}], env = {}, dataFolder }: NodeOptions = {}): Promise<Node> {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const key = makeKey()
  const node = await startLarkway(t, {
    key,
    env,
    ...(dataFolder === undefined ? {} : { dataFolder }),
    config: {
      rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
      providers: { sandbox: { kind: 'sandbox', access: 'platform', base_url: sandbox.url, price: PRICE } },
      routes: {
        main: {
          workspace: 'acme',
          entries: entries.map((options) => ({ provider: 'sandbox', model: 'morse-1', options })),
        },
      },
      workspaces: {
        acme: {
          credits_usd: 1000,
          grant_id: 'initial',
          apps: { web: { route: 'main' } },
          keys: [{ id: 'key_web', app: 'web', sha256: hashKey(key) }],
        },
      },
    },
  })
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  async function post(path: string, body: object): Promise<Answer> {
    const response = await fetch(node.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    return { status: response.status, body: (await response.json()) as Answer['body'] }
  }
  return {
    ...node,
    post,
    async enqueue(endpoint, payload, more = {}) {
      const { status, body } = await post('/v1/queue', { endpoint, payload, ...more })
      if (status !== 202 || body.job === undefined) throw new Error(`not taken: ${JSON.stringify(body)}`)
      return body.job.id
    },
    async ended(id, status = 'succeeded') {
      const find = () =>
        node.log.find((line) => line.msg === 'job' && line.job_id === id && line.status === status)
      await waitUntil(() => find() !== undefined, 30_000)
      const line = find()
      if (line !== undefined) return line
      throw new Error(
        `${id} is not ${status}: ${JSON.stringify(node.log.filter(({ job_id }) => job_id === id))}`,
      )
    },
    calls: async () => {
      const response = await fetch(`${new URL(sandbox.url).origin}/sandbox/calls`)
      return ((await response.json()) as { calls: ReceivedCall[] }).calls
    },
    async printed(command, ...args) {
      const LARKWAY_CONFIG = join(node.dataFolder, 'larkway.yaml')
      const place = { ...env, LARKWAY_DATA: node.dataFolder, LARKWAY_CONFIG }
      const output: string[] = []
      await command(args, { env: place, print: (text) => void output.push(text) })
      return output.join('')
    },
  }
}

const SOUND = speak('sos', 600, 1).toString('base64')
const CHAT = { messages: [{ role: 'user', content: 'hello lark' }] }
const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** A payload for each endpoint, the call that the provider gets, and the way of the endpoint that answers at once. */
const RUNS: readonly [endpoint: string, payload: object, call: string, path?: string][] = [
  ['chat', CHAT, '/v1/chat/completions'],
  ['complete', { prompt: 'hello' }, '/v1/chat/completions'],
  [
    'vision',
    { prompt: 'what?', images: [{ base64: PIXEL, media_type: 'image/png' }] },
    '/v1/chat/completions',
  ],
  ['embed', { input: 'hello' }, '/v1/embeddings', '/v1/embeddings'],
  ['embeddings', { input: ['hello', 'lark'] }, '/v1/embeddings'],
  ['image', { prompt: 'a lark', size: '64x64' }, '/v1/images/generations'],
  ['speech', { input: 'hello' }, '/v1/audio/speech'],
  ['transcription', { audio: SOUND }, '/v1/audio/transcriptions'],
  ['translation', { audio: { base64: SOUND } }, '/v1/audio/translations'],
  ['audio', { audio_base64: SOUND }, '/v1/audio/transcriptions'],
  ['audio', { task: 'speech', input: 'hello' }, '/v1/audio/speech'],
  ['video', { prompt: 'a lark', duration_seconds: 4 }, '/v1/videos'],
]

const LOOK_MS = 50

t.test('a job of every endpoint runs, and is metered and paid for as the call itself', async (t) => {
  const node = await startNode(t)
  // Money that a node has set aside for the calls of a key counts as spent until it is given back.
  const state = await openState({ LARKWAY_DATA: node.dataFolder }, pino({ level: 'silent' }))
  t.teardown(() => state.close())
  const spent = async (): Promise<number> => {
    let view = await state.accounts.show('acme', NO_TERMS)
    await waitUntil(
      async () => {
        view = await state.accounts.show('acme', NO_TERMS)
        return view.reservedMicros === 0
      },
      10_000,
      LOOK_MS,
    )
    return view.spentMicros
  }
  for (const [endpoint, payload, call, path = `/v1/${endpoint}`] of RUNS) {
    const before = await spent()
    const { status, body } = await node.post(path, payload)
    t.equal(status, 200, `${endpoint}: ${JSON.stringify(body.error)}`)
    const { usage, cost_usd: cost } = body as { usage?: object; cost_usd?: number }
    t.ok(typeof cost === 'number' && cost > 0)
    const once = (await spent()) - before

    const callsBefore = (await node.calls()).length
    const id = await node.enqueue(endpoint, payload)
    const line = await node.ended(id)
    t.match(line, {
      kind: 'queue',
      workspace: 'acme',
      app: 'web',
      key_id: 'key_web',
      cost_usd: cost,
      fence: 1,
    })
    t.same(line.usage, usage, 'it is metered like the call')
    const calls = (await node.calls()).slice(callsBefore)
    t.ok(calls.length >= 1 && calls.every(({ path }) => path.startsWith(call)), call)
    t.ok(
      await waitUntil(async () => (await spent()) - before === 2 * once, 10_000, LOOK_MS),
      'and paid for once',
    )
    t.match(JSON.parse(await node.printed(jobs, 'show', id, '--json')), {
      status: 'succeeded',
      result_bytes: null,
      history: [{ status: 'queued' }, { status: 'processing' }, { status: 'succeeded' }],
    })
  }
  const [view] = JSON.parse(await node.printed(credits, 'show', '--json'))
  t.match(view, { spent_usd: (await spent()) / 1e6, reserved_usd: 0 }, 'the command shows the same')
})

t.test('a job that fails for good is dead; tried again by hand it succeeds', async (t) => {
  const node = await startNode(t, { entries: [{ status: 400, fail_times: 1, key: 'once' }] })
  const id = await node.enqueue('transcription', { audio: SOUND })
  const line = await node.ended(id, 'failed')
  const dead = async () => JSON.parse(await node.printed(jobs, 'list', '--dead', '--json'))
  t.match(await dead(), [{ id, kind: 'queue', status: 'failed', error: line.error }])
  t.match(await node.printed(jobs, 'show', id), /error +UPSTREAM_REJECTED: /)

  t.equal(await node.printed(jobs, 'retry', id), `${id} is queued again\n`)
  t.match(await node.ended(id), { error: undefined })
  const never = {
    constructor: CommandFailure,
    message: /^the job is succeeded: only a failed job can be retried$/,
  }
  await t.rejects(node.printed(jobs, 'retry', id), never)
  t.same(await dead(), [])
})

t.test('a job is cancelled by hand while it runs', async (t) => {
  const node = await startNode(t, { entries: [{ hang: true }] })
  const id = await node.enqueue('chat', CHAT)
  t.ok(await waitUntil(async () => (await node.calls()).length === 1, 20_000), 'its provider is at work')
  t.match(await node.printed(jobs, 'cancel', id), /is processing, and is cancelled as soon as/)
  await node.ended(id, 'cancelled')
  t.match(await node.printed(jobs, 'cancel', id), /has already ended as cancelled/)
})

t.test('what was acknowledged is done after a kill; modes are served 6 : 3 : 1', async (t) => {
  const dataFolder = await mkdtemp(join(tmpdir(), 'larkway-'))
  t.teardown(() => rm(dataFolder, { recursive: true, force: true }))
  const door = await startNode(t, { dataFolder, env: { LARKWAY_JOBS: '0' } })
  const modes = new Map<string, string>()
  for (const mode of ['bulk', 'standard', 'priority'])
    for (let i = 0; i < 12; i++) modes.set(await door.enqueue('speech', { input: `${i}` }, { mode }), mode)
  t.ok(
    door.log.every(({ msg }) => msg !== 'job'),
    'no worker is here',
  )
  await door.signal('SIGKILL')

  const worker = await startNode(t, { dataFolder, env: { LARKWAY_JOBS: '1' } })
  for (const id of modes.keys()) await worker.ended(id)
  const order = worker.log.filter(({ msg }) => msg === 'job').map(({ job_id }) => modes.get(String(job_id)))
  const count = (mode: string, upTo: number) => order.slice(0, upTo).filter((one) => one === mode).length
  t.equal(order.length, modes.size, 'each was done once')
  t.same([count('priority', 10), count('standard', 10), count('bulk', 10)], [6, 3, 1])
  t.same([count('priority', 20), count('standard', 20), count('bulk', 20)], [12, 6, 2])
})

t.test('on Redis: enqueued once, done once, seen by the commands', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const node = await startNode(t, { env: { REDIS_URL: url } })
  const order = { endpoint: 'transcription', payload: { audio: SOUND }, idempotency_key: 'k' }
  const answers = await Promise.all(Array.from({ length: 8 }, () => node.post('/v1/queue', order)))
  const ids = new Set(answers.map(({ body }) => body.job?.id))
  t.same(answers.map(({ status }) => status).sort(), [200, 200, 200, 200, 200, 200, 200, 202])
  t.equal(ids.size, 1)
  const [id = ''] = ids
  t.match(await node.ended(id), { operation: 'transcription', cost_usd: Number })
  const listed = JSON.parse(await node.printed(jobs, 'list', '--json'))
  t.match(listed, [{ id, status: 'succeeded', claims: 1 }])
  t.equal(listed.length, 1)
  t.equal((await node.calls()).length, 1)
})
