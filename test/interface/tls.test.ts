import { Agent as HttpsAgent } from 'node:https'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import OpenAI, { toFile } from 'openai'
import t from 'tap'
import { Agent as Dispatcher, fetch } from 'undici'
import { askTls } from '../support/ask-tls.ts'
import { createAuthority, selfSigned } from '../support/certificates.ts'
import { larkway, runInProcess, withoutAge } from '../support/cli.ts'
import { type LocalCertificate, localCertificate } from '../support/edge.ts'
import { scrape } from '../support/exposition.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { startLarkway } from '../support/larkway.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

const DAY_MS = 86_400_000

function environmentFor({ files }: Pick<LocalCertificate, 'files'>): Record<string, string> {
  return { LARKWAY_TLS_CERT: files.certFile, LARKWAY_TLS_KEY: files.keyFile, LARKWAY_TLS_PORT: '0' }
}

const tlsPortOf = ({ log }: Pick<Gateway, 'log'>) =>
  Number(log.find(({ msg }) => msg === 'listening')?.tls_port)

t.test("OpenAI's client speaks and transcribes over HTTPS", async (t) => {
  const certificate = await localCertificate(t)
  const gateway = await startGateway(t, { env: environmentFor(certificate) })
  const baseURL = `https://localhost:${tlsPortOf(gateway)}/openai/v1`
  const openai = new OpenAI({ baseURL, apiKey: gateway.key, maxRetries: 0 })
  const untrusted = { cause: { cause: { code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' } } }
  await t.rejects(openai.models.list(), untrusted)

  // As NODE_EXTRA_CA_CERTS does for a process.
  const trusted = getCACertificates('default')
  setDefaultCACertificates([...trusted, certificate.ca])
  t.teardown(() => setDefaultCACertificates(trusted))
  const spoken = await openai.audio.speech.create({
    model: 'any',
    voice: 'alloy',
    input: 'hello tls',
    response_format: 'wav',
  })
  const file = await toFile(await spoken.arrayBuffer(), 'hello.wav', { type: 'audio/wav' })
  t.equal((await openai.audio.transcriptions.create({ model: 'any', file })).text, 'hello tls')
  const large = await toFile(filledWav(25 * 1024 * 1024, 1), 'large.wav', { type: 'audio/wav' })
  t.type((await openai.audio.transcriptions.create({ model: 'any', file: large })).text, 'string')
})

t.test('a session of the console that began over HTTPS stays there', async (t) => {
  const certificate = await localCertificate(t)
  const gateway = await startGateway(t, { env: environmentFor(certificate) })
  const dispatcher = new Dispatcher({ connect: { ca: certificate.ca } })
  t.teardown(() => dispatcher.destroy())
  const cookie = async (url: string) => {
    const body = JSON.stringify({ key: gateway.key })
    const headers = { 'content-type': 'application/json' }
    const signedIn = await fetch(`${url}/console/api/session`, { method: 'POST', headers, body, dispatcher })
    return signedIn.headers.get('set-cookie')
  }
  t.match(await cookie(`https://localhost:${tlsPortOf(gateway)}`), /; Secure$/)
  t.match(await cookie(gateway.url), /Max-Age=\d+$/, 'over a plain connection it is not')
})

t.test('SIGHUP renews the certificate, and what cannot be used changes nothing', async (t) => {
  const certificate = await localCertificate(t)
  const env = { ...environmentFor(certificate), LARKWAY_METRICS_PORT: '0' }
  const gateway = await startLarkway(t, { env })
  const port = tlsPortOf(gateway)
  const agent = new HttpsAgent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const before = await askTls(port, certificate.ca, '/readyz', { agent })

  const reload = async (msg: string) => {
    const lines = () => gateway.log.filter((line) => String(line.msg).startsWith('TLS certificate')).length
    const known = lines()
    process.kill(gateway.pid, 'SIGHUP')
    t.ok(await waitUntil(() => lines() > known), msg)
    t.equal(gateway.log.findLast((line) => String(line.msg).startsWith('TLS certificate'))?.msg, msg)
    return gateway.log.findLast((line) => line.msg === msg)
  }
  t.match(await reload('TLS certificate read'), { changed: false })
  await certificate.renew()
  t.match(await reload('TLS certificate read'), { changed: true, expires_at: /T.*Z$/ })
  const after = await askTls(port, certificate.ca, '/readyz')
  t.not(after.shown, before.shown)
  t.equal(
    (await askTls(port, certificate.ca, '/readyz', { agent })).shown,
    before.shown,
    'an open connection continues',
  )

  const { cert } = selfSigned(['localhost'])
  await certificate.renew({ cert })
  const refused = await reload('TLS certificate refused, the old one stays')
  t.match(refused, { level: 'error', reason: /^LARKWAY_TLS_KEY is not the key of the first certificate/ })
  t.match(await askTls(port, certificate.ca, '/readyz'), { status: 200, shown: after.shown })

  const metricsPort = Number(gateway.log.find(({ msg }) => msg === 'listening')?.metrics_port)
  const seconds = (await scrape(metricsPort)).value('larkway_tls_certificate_expiry_seconds')
  t.ok(Number(seconds) > 0 && Number(seconds) <= 6 * 86_400, `${seconds} s are left of six days`)

  t.equal(await gateway.signal('SIGTERM'), 0)
  await t.rejects(askTls(port, certificate.ca, '/readyz'), { code: 'ECONNREFUSED' })
})

t.test('a node does not start with files that cannot serve, and says which', async (t) => {
  const certificate = await localCertificate(t)
  const env = environmentFor(certificate)
  const [good, other] = [selfSigned(['localhost']), selfSigned(['localhost'])]
  const locked = '-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n'
  const cases = [
    [
      { ...good, key: other.key },
      'LARKWAY_TLS_KEY is not the key of the first certificate in LARKWAY_TLS_CERT',
    ],
    [{ ...good, cert: 'secret' }, 'LARKWAY_TLS_CERT: the file holds no certificate in PEM'],
    [{ ...good, key: 'secret' }, 'LARKWAY_TLS_KEY: the file holds no private key in PEM'],
    [{ ...good, key: locked }, 'LARKWAY_TLS_KEY: the key has a passphrase; take it off with `openssl pkey'],
    [{ ...good, cert: `${good.cert}-----BEGIN CERTIFICATE-----\nAA==\n` }, 'cannot use the certificate'],
  ] as const
  for (const [files, message] of cases) {
    await certificate.renew(files)
    await t.rejects(startGateway(t, { env }), { message: new RegExp(message) })
  }
  const missing = { ...env, LARKWAY_TLS_KEY: `${certificate.files.keyFile}.gone` }
  await t.rejects(startGateway(t, { env: missing }), { message: /^LARKWAY_TLS_KEY: .* read \(ENOENT\)$/ })
  await certificate.renew({ ...good, key: other.key })
  const started = await larkway(['serve'], { env: { ...env, PORT: '0', LARKWAY_DATA: t.testdir() } })
  t.equal(started.code, 1)
  t.match(started.errors, /^larkway: LARKWAY_TLS_KEY is not the key of the first certificate in [A-Z_]+\n$/)
})

t.test('one that has expired serves, with a warning', async (t) => {
  const certificate = await localCertificate(t)
  const past = { from: new Date(Date.now() - 2 * DAY_MS), to: new Date(Date.now() - DAY_MS) }
  await certificate.renew(createAuthority().issue(['localhost'], past))
  const { log } = await startGateway(t, { env: environmentFor(certificate) })
  t.match(
    log.find(({ msg }) => msg === 'look after the TLS certificate'),
    {
      level: 'warn',
      reason: 'the TLS certificate has expired',
      expires_at: past.to.toISOString().slice(0, 10),
    },
  )
})

t.test('`larkway check` looks at the certificate', async (t) => {
  const certificate = await localCertificate(t)
  const cwd = t.testdir({ 'larkway.yaml': '{"providers":{},"routes":{},"workspaces":{}}' })
  const check = async (env: Record<string, string>) => {
    const { output, ...ended } = await runInProcess(['check'], { cwd, env })
    return { ...ended, output: withoutAge(output) }
  }
  const authority = createAuthority()
  const dates = async (fromDays: number, toDays: number) => {
    const [from, to] = [fromDays, toDays].map((days) => new Date(Date.now() + days * DAY_MS))
    await certificate.renew(authority.issue(['localhost'], { from: from!, to: to! }))
    return check(environmentFor(certificate))
  }
  t.match(await dates(-30, 60), { code: 0, output: /belong together\. It is valid until [-\dT:.]+Z\.\n$/ })
  t.match(await dates(-80, 10), { code: 0, output: /\nWarning: the TLS certificate expires soon\.\n$/ })
  t.match(await dates(-3, 3), { code: 0, output: /is valid until [-\dT:.]+Z\.\n$/ }, 'short-lived')
  t.match(await dates(-90, -1), { code: 1, output: /\nWarning: the TLS certificate has expired\.\n$/ })
  t.match(await dates(1, 90), { code: 1, output: /\nWarning: the TLS certificate is not valid yet\.\n$/ })
  await certificate.renew({ key: selfSigned(['localhost']).key })
  const mismatched = await check(environmentFor(certificate))
  t.match(mismatched, { code: 1, output: /LARKWAY_TLS_KEY is not the key of the first certificate/ })
  const half = await check({ LARKWAY_TLS_CERT: certificate.files.certFile })
  t.match(half, { code: 1, output: /TLS also needs LARKWAY_TLS_KEY/ })
})
