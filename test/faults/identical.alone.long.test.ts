import t from 'tap'
import { Pool } from 'undici'
import { startFleet } from '../support/fleet.ts'
import { withoutServers } from '../support/servers.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { filledWav } from '../support/wav.ts'

const KEYS = process.env.LARKWAY_TEST_LONG === '1' ? 1_000 : 300
/** Identical requests for each key, all under way at the same time. */
const SAME = 50
/** Keys that are under way at the same time. */
const AT_ONCE = 4

interface Answer {
  readonly status: number
  readonly replay: boolean
  readonly body: string
}

const codeOf = ({ body }: Answer) =>
  (JSON.parse(body) as { error?: { code?: string } }).error?.code ?? 'no error'

// Whatever node gets them, in whatever order: the provider is asked, and paid, once for each key.
t.test('identical requests on three nodes', { skip: withoutServers, timeout: 300_000 }, async (t) => {
  const upstream = await startUpstream(t)
  const priced = { capabilities: ['audio_input'], price: { per_hour_usd: 0.36 } }
  const { nodes, nginx, authorizationOf } = await startFleet(t, {
    ...{ nodes: 3, nginx: true, redis: { durable: true }, s3: 'shared' },
    providers: {
      own: { kind: 'openai-compatible', access: 'byok', workspace: 'acme', base_url: upstream.url },
    },
    workspaces: { acme: { entries: [{ provider: 'own', model: 'whisper-1', ...priced }] } },
  })
  const authorization = authorizationOf('acme')
  const connections = Math.ceil((SAME * AT_ONCE) / 4)
  const pools = [...nodes, nginx].map(({ url }) => new Pool(url, { connections, pipelining: 1 }))
  t.teardown(() => Promise.all(pools.map((pool) => pool.destroy())))

  const ask = async (pool: Pool | undefined, key: number): Promise<Answer> => {
    if (pool === undefined) throw new Error('no pool')
    const { statusCode, headers, body } = await pool.request({
      method: 'POST',
      path: '/v1/transcription',
      headers: { authorization, 'content-type': 'audio/wav', 'idempotency-key': `key-${key}` },
      body: audioOf(key),
    })
    return {
      status: statusCode,
      replay: headers['x-lk-idempotent-replay'] === 'true',
      body: await body.text(),
    }
  }

  const wrong: string[] = []
  const tally = { executed: 0, replayed: 0, inProgress: 0 }
  const bodies: string[] = []
  const askAlike = async (key: number): Promise<void> => {
    const answers = await Promise.all(
      Array.from({ length: SAME }, (_, index) => ask(pools[(key + index) % pools.length], key)),
    )
    const executed = answers.filter(({ status, replay }) => status === 200 && !replay)
    const body = executed[0]?.body ?? ''
    const replayed = answers.filter((answer) => answer.status === 200 && answer.replay)
    const inProgress = answers.filter(
      (answer) => answer.status === 409 && codeOf(answer) === 'IDEMPOTENCY_REPLAY_IN_PROGRESS',
    )
    bodies[key] = body
    tally.executed += executed.length
    tally.replayed += replayed.length
    tally.inProgress += inProgress.length
    if (executed.length !== 1) wrong.push(`key ${key} was executed ${executed.length} times`)
    const others = replayed.filter((answer) => answer.body !== body)
    if (others.length > 0) wrong.push(`key ${key}: ${others.length} replays of something else`)
    const strange = answers.filter((answer) => ![executed, replayed, inProgress].flat().includes(answer))
    for (const { status, body } of strange) wrong.push(`key ${key}: ${status} ${body.slice(0, 200)}`)
  }

  const startMs = performance.now()
  let next = 0
  const work = async () => {
    for (let key = next++; key < KEYS; key = next++) await askAlike(key)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  const seconds = (performance.now() - startMs) / 1_000
  t.comment(`${KEYS * SAME} requests in ${seconds.toFixed(1)} s`, tally)
  t.same(wrong.slice(0, 20), [])
  t.equal(tally.executed, KEYS)
  t.equal(tally.executed + tally.replayed + tally.inProgress, KEYS * SAME)
  t.ok(tally.inProgress > KEYS && tally.replayed > KEYS, 'they met one another at either stage')

  t.equal(upstream.received.length, KEYS, 'calls of the provider')
  t.equal(new Set(upstream.received.map(({ sha256 }) => sha256)).size, KEYS, 'one for each audio')
  t.equal(new Set(bodies).size, KEYS, 'no two keys got the same answer')

  const later = await Promise.all(bodies.map((_, key) => ask(pools[(key * 7 + 1) % pools.length], key)))
  const unequal = later.filter(
    ({ status, replay, body }, key) => status !== 200 || !replay || body !== bodies[key],
  )
  t.same(unequal.slice(0, 5), [], 'whoever is asked later replays the one answer')
  t.equal(upstream.received.length, KEYS)

  // Too long to be kept with its key: it is an object in the store.
  upstream.behave('whisper-1', { deltas: ['lark '.repeat(20_000)] })
  const long = await ask(pools[0], KEYS)
  t.match(long, { status: 200, replay: false })
  t.ok(long.body.length > 100_000)
  for (const pool of pools) t.same(await ask(pool, KEYS), { ...long, replay: true })
  t.equal(upstream.received.length, KEYS + 1)
})

/** A tenth of a second that no other key has. */
function audioOf(key: number): Buffer {
  const wav = filledWav(44 + 3_200)
  wav.writeUInt32LE(key, 44)
  return wav
}
