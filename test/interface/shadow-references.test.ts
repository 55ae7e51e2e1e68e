import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { scrape } from '../support/exposition.ts'
import { startGateway } from '../support/gateway.ts'
import { serveHttp } from '../support/http-server.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'
import { shadowedProviders, shadowedRoute } from './shadowed-route.ts'

t.setTimeout(120_000)

const ANSWERED = 'the quick brown fox jumps'
const SHADOWED = 'the quick brown fax leaps'
/** One word from the answer, two from the shadow's. */
const SAID = 'The quick brown fox jumped.'
const WAV = filledWav(20_044, 5)

interface Options {
  readonly references?: object
}

/** Two providers that differ, and callers of two workspaces. */
async function start(t: Test, { references }: Options) {
  const origin = await serveHttp(t, async (request, response) => {
    for await (const _ of request.on('error', () => {}));
    const text = request.url!.startsWith('/shadow') ? SHADOWED : ANSWERED
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ text }))
  })
  const [key, otherKey] = [makeKey(), makeKey()]
  const workspace = (name: string, own: string) => ({
    credits_usd: 10,
    grant_id: name,
    apps: { web: { route: `${name}-voice` } },
    keys: [{ id: `key_${name}`, app: 'web', sha256: hashKey(own) }],
  })
  const kept = references === undefined ? {} : { references }
  const larkway = await startGateway(t, {
    key,
    config: {
      providers: shadowedProviders(origin),
      routes: { 'acme-voice': shadowedRoute('acme', kept), 'umbra-voice': shadowedRoute('umbra', kept) },
      workspaces: { acme: workspace('acme', key), umbra: workspace('umbra', otherKey) },
    },
    env: { LARKWAY_METRICS_PORT: '0', LARKWAY_DRAIN_SECONDS: '0' },
  })
  const metricsPort = Number(larkway.log.find(({ msg }) => msg === 'listening')?.metrics_port)
  const metric = async (name: string, labels: Record<string, string> = {}) =>
    (await scrape(metricsPort)).value(`larkway_shadow_${name}`, labels) ?? 0
  const ask = async (method: string, path: string, more: Partial<RequestInit> & { own?: string } = {}) => {
    const { own = key, headers, ...rest } = more
    const response = await fetch(larkway.url + path, {
      method,
      ...rest,
      headers: { authorization: `Bearer ${own}`, ...headers },
    })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
  const heard = async (headers: Record<string, string> = {}, path = '/v1/transcription') => {
    const { body } = await ask('POST', path, {
      headers: { 'content-type': 'audio/wav', ...headers },
      body: new Uint8Array(WAV),
    })
    return String(body.job_id ?? body.id)
  }
  const refer = (id: unknown, text: unknown = SAID, own = key) =>
    ask('POST', '/v1/transcription/references', {
      own,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ id, text }),
    })
  const compared = (calls: number) =>
    waitUntil(async () => (await metric('calls_total', { outcome: 'ok' })) >= calls)
  return { larkway, metric, ask, heard, refer, compared, otherKey }
}

/** Files below a folder that hold a text. */
async function holding(folder: string, text: string): Promise<string[]> {
  const files = await readdir(folder, { recursive: true, withFileTypes: true })
  const found: string[] = []
  for (const file of files.filter((one) => one.isFile())) {
    const path = join(file.parentPath, file.name)
    if ((await readFile(path).catch(() => Buffer.alloc(0))).includes(text)) found.push(path)
  }
  return found
}

const pairsIn = async (folder: string) =>
  (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((file) => file.isFile() && /\/pair(\/|$)/.test(file.parentPath))
    .map((file) => join(file.parentPath, file.name))

t.test('a reference counts once, for its own workspace, and removes what was kept', async (t) => {
  const { larkway, metric, heard, refer, compared, otherKey } = await start(t, { references: {} })
  const id = await heard()
  await compared(1)
  const kept = await pairsIn(larkway.dataFolder)
  t.equal(kept.length, 1)
  for (const text of [ANSWERED, SHADOWED, 'brown'])
    t.same(await holding(larkway.dataFolder, text), [], `${text} is nowhere in the clear`)
  t.match(await readFile(kept[0]!, 'utf8'), /sealed1\./)
  t.ok((await holding(larkway.dataFolder, 'sealed1.')).includes(kept[0]!), 'a text in the clear is found')

  t.match(await refer(id, SAID, otherKey), { status: 404, body: { error: { code: 'NOT_FOUND' } } })
  t.match(await refer(`${id}x`), { status: 404 })
  t.match(await refer(id, ' … '), { status: 400 }, 'no word')
  t.match(await refer(id, 'a '.repeat(60_001)), { status: 400 }, 'too many words')
  t.match(await refer(id, 'a'.repeat(1024 * 1024 + 1)), { status: 400, body: { error: { param: 'text' } } })
  t.match(await refer(7), { status: 400, body: { error: { param: 'id' } } })
  t.equal(await metric('references_total'), 0, 'nothing of that counts')

  const at = await Promise.all(Array.from({ length: 5 }, () => refer(id)))
  for (const answer of at) t.same(answer, { status: 200, body: { id, words: 5 } })
  t.same(await refer(id, 'another text'), { status: 200, body: { id, words: 5 } })
  t.equal(await metric('references_total'), 1)
  t.equal(await metric('reference_words_total', { side: 'entry' }), 5)
  t.equal(await metric('reference_errors_total', { side: 'entry' }), 1)
  t.equal(await metric('reference_errors_total', { side: 'shadow' }), 2)
  const left = await pairsIn(larkway.dataFolder)
  t.equal(left.length, 1, 'of it the number of words is left')
  t.not(left[0], kept[0])
  t.ok((await readFile(left[0]!)).length < 120, 'and no text')
})

t.test('ids that callers choose', async (t) => {
  const { heard, refer, compared, metric, otherKey } = await start(t, { references: {} })
  const mine = { 'x-lk-request-id': 'mine' }
  t.equal(await heard(mine), 'mine')
  await compared(1)
  t.match(await refer('mine', SAID, otherKey), { status: 404 })
  t.match(await refer('mine'), { status: 200 })
  await heard(mine)
  await compared(2)
  t.match(await refer('mine'), { status: 409, body: { error: { code: 'CONFLICT' } } }, 'used twice')
  t.equal(await metric('references_total'), 1)
  const job = await heard({}, '/v1/transcription/jobs')
  t.match(job, /^tj_/)
  await compared(3)
  t.match(await refer(job), { status: 200, body: { id: job, words: 5 } })
})

t.test('the time of a pair ends', async (t) => {
  const { heard, refer, compared, larkway } = await start(t, { references: { ttl_seconds: 2 } })
  const [first, second] = [await heard(), await heard()]
  await compared(2)
  t.equal((await pairsIn(larkway.dataFolder)).length, 2)
  // Each has a time of its own, which begins when the shadow has answered.
  for (const id of [first, second])
    t.ok(
      await waitUntil(async () => (await refer(id)).status === 404),
      'a pair whose time is over is not there',
    )
})

t.test('what is deleted is deleted here, too', async (t) => {
  const { heard, refer, compared, ask, larkway } = await start(t, { references: {} })
  const job = await heard({}, '/v1/transcription/jobs')
  await compared(1)
  t.equal((await pairsIn(larkway.dataFolder)).length, 1)
  t.match(await ask('DELETE', `/assemblyai/v2/transcript/${job}`), { status: 200 })
  t.equal((await pairsIn(larkway.dataFolder)).length, 0)
  t.match(await refer(job), { status: 404 })
})

t.test('without references nothing is kept', async (t) => {
  const { heard, refer, compared, larkway } = await start(t, {})
  const id = await heard()
  await compared(1)
  t.match(await refer(id), { status: 404 })
  t.same(await pairsIn(larkway.dataFolder), [])
})
