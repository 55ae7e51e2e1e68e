import { Socket } from 'node:net'
import t from 'tap'
import { SLOW_HOSTS, TLS_HOSTS } from '../support/guard-hosts.ts'
import { good, startGuardRig } from '../support/guard-rig.ts'
import { dialInto, serveTcp, serveTls } from '../support/tls-host.ts'

t.setTimeout(120_000)

const FAILED = 'AUDIO_URL_FETCH_FAILED'
const URL_OF_AUDIO = 'https://good.example/a.wav'
const URL_OF_HOOK = 'https://good.example/hook'
const DOMAINS = ['good.example']

t.test('certificates and versions of TLS', async (t) => {
  // What would make Node take any certificate.
  const { NODE_TLS_REJECT_UNAUTHORIZED: before } = process.env
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  t.teardown(() => {
    if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
    else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before
  })
  const rig = await startGuardRig(t, { domains: DOMAINS })
  t.equal(await rig.putWebhook(URL_OF_HOOK), 200)
  for (const [name, [options, isSound]] of Object.entries(TLS_HOSTS)) {
    const host = await serveTls(t, options(), good)
    rig.places['8.8.8.8'] = host
    t.equal(await rig.transcribe(URL_OF_AUDIO), isSound ? 'heard' : FAILED, name)
    const { id, word } = await rig.run(URL_OF_AUDIO)
    t.equal(word, isSound ? 'heard' : `failed: ${FAILED}`, 'by a job')
    t.match(await rig.delivery(id!), isSound ? /^delivered$/ : /^no connection(?: \([A-Z_0-9]+\))?$/)
    t.equal(host.requests.length, isSound ? 3 : 0, 'and who is somebody else sees no request')
  }
})

/** All limits; the tests of the fetcher wait for the true ones. */
const LIMIT_MS = 1_000

for (const [name, { host, limit, told }] of Object.entries(SLOW_HOSTS)) {
  t.test(`a slow host: ${name}`, async (t) => {
    const silent = await serveTcp(t)
    const into = dialInto({ '8.8.8.8': silent })
    const rig = await startGuardRig(t, {
      domains: DOMAINS,
      fetchTiming: { connectMs: 30_000, headMs: 30_000, bodyMs: 30_000, [limit]: LIMIT_MS },
      postTiming: { totalMs: LIMIT_MS, bodyMs: LIMIT_MS },
      jobTiming: { fetchAgainMs: [20] },
      ...(host === 'nowhere' && { dial: () => new Socket() }),
      ...(host === 'tcp' && { dial: into.dial }),
    })
    if (typeof host !== 'string') rig.answer = host
    t.equal(await rig.putWebhook(URL_OF_HOOK), 200)
    const beganMs = performance.now()
    const [word, ran] = await Promise.all([rig.transcribe(URL_OF_AUDIO), rig.run(URL_OF_AUDIO)])
    t.equal(word, FAILED, told)
    t.equal(ran.word, `failed: ${FAILED}`, 'by a job')
    const outcome = await rig.delivery(ran.id!)
    // Its status is known by then.
    t.match(outcome, limit === 'bodyMs' ? /^delivered$/ : /^no (?:answer within 1000 ms|connection)/)
    t.equal(rig.heard(), 0)
    const tookMs = performance.now() - beganMs
    t.ok(tookMs > 2 * LIMIT_MS && tookMs < 15_000, `${Math.round(tookMs)} ms`)
  })
}
