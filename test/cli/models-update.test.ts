import { generateKeyPairSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { type ModelsDocument, SHIPPED } from '../../src/gateway/providers/facts.ts'
import { signModels } from '../../src/gateway/providers/feed.ts'
import { runInProcess } from '../support/cli.ts'
import { startLarkway } from '../support/larkway.ts'
import { startRedis } from '../support/redis-server.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'

const { publicKey, privateKey } = generateKeyPairSync('ed25519')
const LARKWAY_MODELS_KEYS = publicKey.export({ format: 'jwk' }).x!
const OWN = JSON.parse(
  readFileSync(new URL('../../src/gateway/providers/models.json', import.meta.url), 'utf8'),
) as ModelsDocument
const LATER = '2099-01-01T00:00:00.000Z'

/** @param isPriced whether it has prices of the sandbox */
function signed(issued_at: string, isPriced = true): string {
  const morse = {
    ...(OWN.models.sandbox?.['morse-1'] as object),
    successor: 'morse-2',
    deprecated_on: '2026-01-01',
    ...(isPriced ? {} : { price: null }),
  }
  const models = { ...OWN.models, sandbox: { ...OWN.models.sandbox, 'morse-1': morse, 'morse-2': morse } }
  return JSON.stringify(signModels({ ...OWN, issued_at, models }, privateKey))
}

t.test('a running node takes up a newer document, and goes back', { timeout: 120_000 }, async (t) => {
  const cwd = t.testdir({
    'later.json': signed(LATER),
    'older.json': signed('2026-01-01T00:00:00.000Z'),
    'tampered.json': signed(LATER).replace('morse-2', 'morse-3'),
  })
  const node = await startLarkway(t, { env: { LARKWAY_MODELS_KEYS } })
  const env = { LARKWAY_MODELS_KEYS, LARKWAY_DATA: node.dataFolder }
  const update = (...args: string[]) => runInProcess(['models', 'update', ...args], { cwd, env })
  const ofModels = async () => {
    const { output } = await runInProcess(['doctor', '--json'], { cwd, env: { ...env, PORT: '1' } })
    const findings = JSON.parse(output) as { grade: string; about: string; finding: string }[]
    const ofModels = findings.filter(({ about }) => about === 'configuration').slice(1)
    return ofModels.map(({ grade, finding }) => `${grade}: ${finding}`)
  }
  const me = async () => {
    const reply = await fetch(`${node.url}/v1/me`, { headers: { authorization: `Bearer ${node.key}` } })
    return ((await reply.json()) as { models: { issued_at: string } }).models.issued_at
  }
  t.equal(await me(), SHIPPED.issuedAt)
  t.match((await update()).output, `in force are of ${SHIPPED.issuedAt}, from the program`)
  const tampered = await update('--from', 'tampered.json')
  t.equal(tampered.code, 1)
  t.match(tampered.errors, /tampered\.json is refused: its signature is not by a key/)
  const older = await update('--from', 'older.json')
  t.equal(older.code, 1)
  t.match(older.errors, /older\.json is of 2026-01-01\S+, and the document in force is newer, .*--force/)
  t.match((await update('--from', 'missing.json')).errors, /missing\.json cannot be read: ENOENT/)
  t.equal(await me(), SHIPPED.issuedAt, 'nothing of that has changed anything')

  t.match(await update('--from', 'later.json'), { code: 0, output: new RegExp(`are those of ${LATER} now`) })
  await waitUntil(async () => (await me()) === LATER)
  t.same(await ofModels(), [
    `ok: the facts of models are of ${LATER}`,
    'warning: sandbox/morse-1 deprecated since 2026-01-01; its successor is morse-2',
  ])
  t.match((await update('--from', 'later.json')).output, /already; nothing has changed/)
  t.match(await update('--from', 'older.json', '--force'), { code: 0 })
  await waitUntil(async () => (await me()) === '2026-01-01T00:00:00.000Z')
  t.match(
    (await ofModels())[0],
    /^warning: .* days old \(2026-01-01\S+, `larkway models update` put them there\)/,
  )

  const server = createServer((_request, response) => response.end(signed(LATER)))
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  t.match(await update('--from', `http://127.0.0.1:${port}/models.json`), { code: 0 })
  await waitUntil(async () => (await me()) === LATER)
  t.match((await update('--from', 'http://example.com/models.json')).errors, /must be an https URL/)
  t.match(await update('--shipped'), { code: 0 })
  await waitUntil(async () => (await me()) === SHIPPED.issuedAt)
  t.match(await update('--shipped', '--force'), { code: 2 })
})

t.test(
  'a node without a key keeps the facts of the program, and says why',
  { timeout: 60_000 },
  async (t) => {
    const data = t.testdir()
    const cwd = t.testdir({ 'later.json': signed(LATER) })
    const first = await startLarkway(t, { dataFolder: data, env: { LARKWAY_MODELS_KEYS } })
    const env = { LARKWAY_MODELS_KEYS, LARKWAY_DATA: first.dataFolder }
    t.match(await runInProcess(['models', 'update', '--from', 'later.json'], { cwd, env }), { code: 0 })
    await first.signal('SIGTERM')
    const other = await startLarkway(t, { dataFolder: first.dataFolder })
    const said = other.log.map(({ msg }) => `${msg}`).find((msg) => msg.startsWith('the stored facts'))
    t.match(said, /are refused, since LARKWAY_MODELS_KEYS is not set; .*those of the program hold/)
    const doctor = await runInProcess(['doctor'], { cwd, env: { LARKWAY_DATA: first.dataFolder, PORT: '1' } })
    t.match(doctor, {
      code: 1,
      output: /the stored facts of models are refused, since LARKWAY_MODELS_KEYS is/,
    })
  },
)

for (const kind of ['SQLite', 'Redis'] as const) {
  const skip = kind === 'Redis' && withoutServers
  t.test(
    `${kind}: a file may have a model that only the document in the state knows`,
    { skip },
    async (t) => {
      const poor = signed('2099-02-01T00:00:00.000Z', false)
      const cwd = t.testdir({ 'later.json': signed(LATER), 'poor.json': poor })
      const configOf = (model: string) => ({
        providers: { sandbox: { kind: 'sandbox', access: 'platform' } },
        routes: { main: { workspace: 'acme', entries: [{ provider: 'sandbox', model }] } },
        workspaces: { acme: { apps: { web: { route: 'main' } } } },
      })
      const redis = kind === 'Redis' ? { REDIS_URL: (await startRedis(t)).url } : {}
      const ofNode = { LARKWAY_MODELS_KEYS, ...redis }
      const first = await startLarkway(t, { config: configOf('morse-1'), env: ofNode })
      const { dataFolder } = first
      const LARKWAY_CONFIG = `${dataFolder}/larkway.yaml`
      const env = { ...ofNode, LARKWAY_DATA: dataFolder, LARKWAY_CONFIG, PORT: '1' }
      const run = (...args: string[]) => runInProcess(args, { cwd, env })
      t.match(await run('models', 'update', '--from', 'later.json'), { code: 0 })
      await first.signal('SIGTERM')
      const second = await startLarkway(t, { config: configOf('morse-2'), dataFolder, env: ofNode })
      t.match(await run('key', 'list'), { code: 0, errors: '' })
      t.match(await run('export'), { code: 0, output: /model: morse-2/ })
      t.match(await run('check'), { code: 1, output: /routes\/main\/entries\/0/ })
      const checked = await run('check', '--models', 'later.json')
      t.match(checked, {
        code: 0,
        output: /is valid\.\n[\s\S]*sandbox\/morse-2 +deprecated since 2026-01-01/,
      })
      const refused = await run('check', '--models', LARKWAY_CONFIG)
      t.match(refused, { code: 1, errors: /larkway\.yaml is refused: it has no signature/ })
      t.match(await run('import', LARKWAY_CONFIG, '--dry-run'), { code: 0, errors: '' })
      const { output } = await run('doctor')
      t.match(output, /^ok +configuration +\S+ is valid: 1 route/m)
      t.match(output, /^warning +configuration +sandbox\/morse-2 deprecated since 2026-01-01/m)

      const notTaken = {
        code: 1,
        errors: /no server takes facts by which .*\n {2}\/routes\/main\/entries\/0/,
      }
      t.match(await run('models', 'update', '--from', 'poor.json'), notTaken)
      t.match(await run('models', 'update', '--shipped'), notTaken)
      await second.signal('SIGTERM')
      await writeFile(LARKWAY_CONFIG, JSON.stringify(configOf('morse-1')))
      t.match(await run('models', 'update', '--from', 'poor.json', '--force'), { code: 0 })
      const third = await startLarkway(t, { config: configOf('morse-1'), dataFolder, env: ofNode })
      const refusal = third.log.find(({ level }) => level === 'error')
      t.match(refusal?.msg, /refused, the catalog is not valid with them$/)
      const { providers, ...others } = configOf('morse-1')
      const prices = { 'morse-1': SHIPPED.factsOf('sandbox', 'morse-1')!.price! }
      const agreed = { sandbox: { ...providers.sandbox, prices } }
      await writeFile(LARKWAY_CONFIG, JSON.stringify({ providers: agreed, ...others }))
      const taken = () =>
        third.log.some(
          ({ msg }) => msg === 'facts of models of 2099-02-01T00:00:00.000Z (stored) are in force',
        )
      t.ok(await waitUntil(taken), 'a file that is valid with them brings them into force')
    },
  )
}
