import { mkdir, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t, { type Test } from 'tap'
import { withAdmin } from '../../src/cli/context.ts'
import { readSecretKeys } from '../../src/contracts/secrets.ts'
import { putProvider } from '../../src/gateway/admin/catalog.ts'
import { fewDescriptors, littleMemory } from '../../src/gateway/node/surroundings.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { runInProcess } from '../support/cli.ts'
import { startRedis } from '../support/redis-server.ts'
import { secret } from '../support/route-gateway.ts'
import { openBucket } from '../support/s3-server.ts'
import { withoutServers } from '../support/servers.ts'
import { sharedS3 } from '../support/shared-s3.ts'

const sandbox = await startSandbox()
t.teardown(() => sandbox.close())

interface Finding {
  readonly grade: string
  readonly about: string
  readonly finding: string
}

/** A folder with a configuration whose route has one entry for each of the providers. */
function folder(t: Test, providers: Readonly<Record<string, object>>, entry: object = {}): string {
  const entries = Object.keys(providers).map((provider) => ({
    provider,
    model: 'whisper-1',
    capabilities: ['audio_input'],
    ...entry,
  }))
  return t.testdir({
    'larkway.yaml': JSON.stringify({
      providers,
      routes: { voice: { workspace: 'acme', entries } },
      workspaces: { acme: { apps: { web: { route: 'voice' } } } },
    }),
  })
}

const own = { kind: 'openai-compatible', access: 'byok', workspace: 'acme' }
const house = { ...own, base_url: sandbox.url }

async function examined(cwd: string, env: Readonly<Record<string, string>>, args: readonly string[] = []) {
  const { code, output } = await runInProcess(['doctor', '--json', ...args], {
    cwd,
    env: { PORT: '1', ...env },
  })
  const findings = JSON.parse(output) as Finding[]
  const of = (about: string) =>
    findings.filter((one) => one.about === about).map(({ grade, finding }) => `${grade}: ${finding}`)
  return { code, findings, of }
}

t.test('nothing is wrong, and nothing is made', async (t) => {
  const cwd = folder(t, { house })
  const { code, findings, of } = await examined(cwd, {})
  t.equal(code, 0)
  t.same(
    findings.filter(({ grade }) => grade === 'fault'),
    [],
  )
  t.match(of('configuration'), [
    'ok: larkway.yaml is valid: 1 route, 0 keys',
    /^ok: the facts of models are of 20|^warning: the facts of models are (9\d|\d{3,}) days old/,
  ])
  t.same(of('state'), ['ok: there is none in ./data yet: the first start makes it'])
  t.match(of('provider house')[0], /^ok: it answers, \d+ models$/)
  new DatabaseSync(join(cwd, 'state.sqlite')).exec('PRAGMA user_version = 3')
  t.match((await examined(cwd, { LARKWAY_DATA: '.' })).of('state'), [/ migrates state\.sqlite$/])
  const { output } = await runInProcess(['doctor'], { cwd, env: { PORT: '1' } })
  t.match(output, /^ok +configuration +larkway\.yaml is valid/)
  t.match(output, /\n0 faults, \d+ warnings?\n$/)
})

t.test('providers of the state are asked, too, and records that do not fit are told', async (t) => {
  const cwd = folder(t, { house })
  const desk = {
    env: { LARKWAY_DATA: join(cwd, 'data'), LARKWAY_CONFIG: join(cwd, 'larkway.yaml') },
    print() {},
  }
  await mkdir(desk.env.LARKWAY_DATA)
  const keys = await readSecretKeys(undefined, desk.env.LARKWAY_DATA)
  await withAdmin(desk, { command: 'test' }, async ({ actor, admin }) => {
    const context = { ...admin, webhooks: { secretKeys: keys, insecure: true } }
    for (const [name, base_url] of [
      ['acme.own', sandbox.url],
      ['acme.gone', 'http://127.0.0.1:1/v1'],
    ] as const) {
      const fields = { kind: 'openai-compatible', credential: 'sk-of-acme', base_url }
      await putProvider(actor, { workspace: 'acme', name, fields }, context)
    }
  })
  const { of } = await examined(cwd, {})
  t.match(of('provider acme.own').join(), /ok: it answers, \d+ models.*warning: no route has it/)
  t.match(of('provider acme.gone')[0], /^fault: no connection to http:\/\/127\.0\.0\.1:1/)
  t.same(of('state'), ['ok: its file answers'])
  await rm(join(desk.env.LARKWAY_DATA, 'secret-key'))
  const lost = await examined(cwd, {})
  t.match(
    lost.of('configuration').join('\n'),
    /fault: provider\/acme\.own is not served: .*no key .*opens it/,
  )
})

t.test('every fault of a configuration, and of the environment', async (t) => {
  const cwd = folder(t, { house }, { capabilities: ['hearing'] })
  const { code, of } = await examined(cwd, {})
  t.equal(code, 1)
  t.match(of('configuration')[0], /^fault: \/routes\/voice\/entries\/0\/capabilities/)
  const environment = await examined(cwd, { LARKWAY_MEMORY_MIB: 'much', LARKWAY_SECRET_KEYS: 'short' })
  t.equal(environment.code, 1)
  t.match(environment.of('environment')[0], /^fault: .*LARKWAY_MEMORY_MIB.*LARKWAY_SECRET_KEYS/)
  t.match(await runInProcess(['doctor', '--yes'], { cwd }), { code: 2, errors: /--yes goes with --call/ })
})

t.test('why a provider is not reached', async (t) => {
  const cwd = folder(t, {
    nobody: { ...own, base_url: 'http://127.0.0.1:1/v1' },
    nameless: { ...own, base_url: 'http://speech.larkway.invalid/v1' },
    astray: { ...own, base_url: `${sandbox.url}/v2` },
  })
  const { code, of } = await examined(cwd, {})
  t.equal(code, 1)
  t.match(
    of('provider nobody')[0],
    /^fault: no connection to http:\/\/127\.0\.0\.1:1: .*(ECONNREFUSED|bad port)/,
  )
  t.match(of('provider nameless')[0], /^fault: no connection .*(ENOTFOUND|EAI_AGAIN)/)
  t.match(of('provider astray')[0], /^fault: 404: there is no list of models/)
})

t.test('calls are made when they were agreed to, and tell what the list of models does not', async (t) => {
  let calls = 0
  const server = createServer((request, response) => {
    request.resume()
    request.on('end', () => {
      const lists = request.url?.endsWith('/models') === true
      if (!lists) calls++
      response.writeHead(lists ? 200 : 403, { 'content-type': 'application/json' })
      response.end(
        lists ? '{"object":"list","data":[{"id":"whisper-1"}]}' : '{"error":{"message":"no speech for you"}}',
      )
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  t.teardown(() => server.close())
  const base_url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  const cwd = folder(t, {
    house,
    mean: { ...own, base_url, api_key: secret('MEAN'), price: { per_hour_usd: 0.36 } },
  })
  const env = { MEAN: 'sk-of-mean' }
  const planned = await examined(cwd, env, ['--call'])
  t.equal(planned.code, 0)
  t.same(planned.of('entry mean/whisper-1'), [
    'ok: a second of audio would cost $0.0001; --yes makes the call',
  ])
  t.equal(calls, 0)
  const { code, of, findings } = await examined(cwd, env, ['--call', '--yes'])
  t.equal(code, 1)
  t.equal(calls, 1)
  t.match(of('provider mean')[0], /^ok/)
  t.match(
    of('entry mean/whisper-1')[0],
    /^fault: a second of audio: 403, the provider refused the credential/,
  )
  t.match(of('entry house/whisper-1')[0], /^ok: a second of audio: answered after \d+ ms$/)
  t.notMatch(JSON.stringify(findings), /sk-of-mean/)
})

t.test('Redis and the bucket as they should not be', { skip: withoutServers }, async (t) => {
  const [redis, s3] = await Promise.all([startRedis(t), sharedS3(t)])
  const { env: bucket, contents } = await openBucket(t, s3)
  const cwd = folder(t, { house })
  const well = await examined(cwd, { ...bucket, REDIS_URL: redis.url })
  t.equal(well.code, 0)
  t.match(well.of('Redis').join('\n'), /ok: it answers after .*\nok: its clock differs .*\n.*append/)
  t.match(well.of('machine').join('\n'), /LARKWAY_SECRET_KEYS is not set/)
  t.match(
    well.of('object store').join('\n'),
    /what was written\n.*\n.*in parts.*\nok: a signed URL of .* opens\n/,
  )
  t.same(await contents(), [])

  const outside = createServer((_, response) => {
    response.setHeader('date', new Date(Date.now() - 3_600_000).toUTCString())
    response.writeHead(403).end()
  })
  await new Promise<void>((done) => outside.listen(0, '127.0.0.1', done))
  t.teardown(() => outside.close())
  const address = `http://127.0.0.1:${(outside.address() as AddressInfo).port}`
  const ill = await examined(cwd, {
    ...bucket,
    REDIS_URL: 'redis://127.0.0.1:1',
    S3_PUBLIC_ENDPOINT: address,
  })
  t.equal(ill.code, 1)
  t.match(ill.of('Redis'), [/^fault: Redis is away: .*ECONNREFUSED/])
  const ofStore = ill.of('object store').join('\n')
  t.match(
    ofStore,
    /fault: a signed URL of http:\/\/127\.0\.0\.1:\d+ answers 403: results and jobs cannot be fetched/,
  )
  t.match(ofStore, /fault: its clock is 36\d\d s behind this one: set both by NTP/)
})

t.test('a machine that is too small', async (t) => {
  t.match(fewDescriptors('Max open files            1024                 4096    files'), /only 1024 files/)
  t.equal(fewDescriptors('Max open files            1048576              1048576    files'), null)
  t.equal(fewDescriptors('Max open files            unlimited            unlimited  files'), null)
  t.equal(fewDescriptors(''), null)
  const one = { LARKWAY_MEMORY_MIB: 256, LARKWAY_PROCESSES: 1, LARKWAY_USAGE: false }
  const two = { ...one, LARKWAY_PROCESSES: 2 }
  const recording = { ...one, LARKWAY_USAGE: true }
  t.match(littleMemory(one, 300 * 1024 ** 2), /may take 300 MiB, and LARKWAY_MEMORY_MIB gives bodies 256/)
  t.equal(littleMemory(one, 512 * 1024 ** 2), null)
  t.match(littleMemory(two, 512 * 1024 ** 2), /in each of 2 processes/)
  t.equal(littleMemory(two, 1024 ** 3), null)
  t.equal(littleMemory(one, 0), null)
  t.match(littleMemory(recording, 512 * 1024 ** 2), /beside 384 for the program and its usage ledger: it may/)
  t.equal(littleMemory(recording, 640 * 1024 ** 2), null)
})
