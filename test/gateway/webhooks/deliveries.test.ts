import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { createLogger } from '../../../src/contracts/log.ts'
import type { Outbox } from '../../../src/contracts/outbox.ts'
import { openEmbeddedState } from '../../../src/gateway/state/embedded/state.ts'
import { tempFolder } from '../../support/scratch.ts'
import { waitUntil } from '../../support/wait-until.ts'
import {
  answering,
  type Behaviour,
  type Delivery,
  dripping,
  endless,
  hanging,
  resetting,
  sending,
  startReceiver,
} from '../../support/webhook-receiver.ts'
import { startWebhookRig } from '../../support/webhook-rig.ts'

t.setTimeout(60_000)

const RETRIED = 8
const ONCE = 1
const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1000).toUTCString()

/** What a target does, how often it is tried, and what is said of it in the end; null: it was delivered. */
const OUTCOMES: Record<string, [behave: Behaviour, attempts: number, reason: RegExp | null]> = {
  '200': [answering(200), ONCE, null],
  '204': [sending('HTTP/1.1 204 No Content\r\n\r\n'), ONCE, null],
  '299': [answering(299), ONCE, null],
  '301': [answering(301, 'Location: https://hooks.example/200'), RETRIED, /^status 301$/],
  '307': [answering(307, 'Location: https://hooks.example/200'), RETRIED, /^status 307$/],
  '400': [answering(400), RETRIED, /^status 400$/],
  '401': [answering(401), RETRIED, /^status 401$/],
  '404': [answering(404), RETRIED, /^status 404$/],
  '410': [answering(410), ONCE, /^status 410$/],
  '429': [answering(429), RETRIED, /^status 429$/],
  '429-now': [answering(429, 'Retry-After: 0'), RETRIED, /^status 429$/],
  '500': [answering(500), RETRIED, /^status 500$/],
  '502': [answering(502), RETRIED, /^status 502$/],
  reset: [resetting, RETRIED, /^the connection broke/],
  endless: [endless({ bytes: 0 }), ONCE, null],
  ssh: [sending('SSH-2.0-OpenSSH_9.2\r\n'), RETRIED, /^the answer cannot be read$/],
}

/** Targets that are no good before anything is sent to them. */
const UNREACHED: Record<string, [url: string, attempts: number, reason: RegExp]> = {
  tls: ['https://wrong.example/', RETRIED, /^no connection \(ERR_TLS_CERT_ALTNAME_INVALID\)$/],
  nobody: ['https://nobody.example/', RETRIED, /^no connection \(ECONNREFUSED\)$/],
  private: ['https://private.example/', ONCE, /^the host has an address that is not public$/],
  literal: ['https://10.0.0.1/', ONCE, /^the URL must have a public host$/],
  http: ['http://hooks.example/', ONCE, /^the URL must begin with https:\/\/$/],
}

const behaveByPath: Behaviour = (line, delivery) => OUTCOMES[delivery.path.slice(1)]?.[0](line, delivery)

t.test('what becomes of an event', async (t) => {
  const receiver = await startReceiver(t, behaveByPath)
  const wrong = await startReceiver(t, answering(200), { names: ['other.example'] })
  const file = join(await tempFolder(t), 'state.sqlite')
  const state = await openEmbeddedState({ file, log: createLogger('silent') })
  t.teardown(() => state.close())
  const rig = startWebhookRig(t, {
    internet: { '8.8.8.8': receiver, '8.8.4.4': wrong },
    addresses: { 'wrong.example': '8.8.4.4', 'nobody.example': '1.1.1.1', 'private.example': '10.0.0.1' },
    state,
  })
  const jobs = new Map<string, string>()
  const beganMs = Date.now()
  for (const name of Object.keys(OUTCOMES)) {
    await rig.setWebhook(name, `https://hooks.example/${name}`)
    jobs.set(name, await rig.announce(name))
  }
  for (const [name, [url]] of Object.entries(UNREACHED)) {
    await rig.setWebhook(name, url)
    jobs.set(name, await rig.announce(name))
  }
  rig.start()
  t.ok(await rig.settled(), 'each comes to an end')

  const left = new Map((await rig.state.outbox.list(null, 100)).map((event) => [event.workspace, event]))
  for (const [name, [, attempts, reason]] of Object.entries(OUTCOMES)) {
    const received = receiver.received.filter(({ path }) => path === `/${name}`)
    t.equal(received.length, attempts, `${name}: attempts`)
    t.equal(new Set(received.map(({ body }) => body)).size, 1, `${name}: the same bytes`)
    t.equal(
      new Set(received.map(({ headers }) => headers['x-lk-webhook-id'])).size,
      1,
      `${name}: the same id`,
    )
    if (reason === null) t.notOk(left.has(name), `${name}: delivered`)
    else t.match(left.get(name), { attempts, reason, nextAttemptAtMs: null, jobId: jobs.get(name) }, name)
  }
  for (const [name, [, attempts, reason]] of Object.entries(UNREACHED))
    t.match(left.get(name), { attempts, reason, nextAttemptAtMs: null, jobId: jobs.get(name) }, name)
  t.equal(wrong.received.length, 0)
  t.ok(await waitUntil(() => receiver.connections.open === 0), 'no connection stays')

  const lines = rig.log.filter(({ msg }) => msg === 'webhook')
  const attempts = [...Object.values(OUTCOMES), ...Object.values(UNREACHED)].reduce(
    (sum, row) => sum + row[1],
    0,
  )
  t.equal(lines.length, attempts, 'a line for each attempt')
  t.match(
    lines.find(({ workspace }) => workspace === '410'),
    {
      level: 30,
      event_id: /^evt_/,
      job_id: jobs.get('410'),
      attempt: 1,
      status: 410,
      outcome: 'given_up',
      milliseconds: Number,
    },
  )
  t.match(
    lines.find(({ workspace }) => workspace === 'reset'),
    { attempt: 1, reason: /^the connection broke/, outcome: 'retry' },
  )
  const text = JSON.stringify(rig.log)
  for (const secret of ['whsec_', 'hooks.example', 'occurred_at', '"v1,']) t.notMatch(text, secret)
  t.ok(Date.now() - beganMs < 30_000)
})

t.test('what becomes of an event whose target takes too long', async (t) => {
  for (const [name, behave] of Object.entries({ hang: hanging, drip: dripping(50) })) {
    const receiver = await startReceiver(t, behave)
    const rig = startWebhookRig(t, {
      internet: { '8.8.8.8': receiver },
      post: { timing: { totalMs: 300, bodyMs: 100 } },
    })
    await rig.setWebhook('acme', 'https://hooks.example/')
    const job = await rig.announce('acme')
    rig.start()
    t.ok(await rig.settled())
    t.match(
      await rig.state.outbox.list(null, 10),
      [{ jobId: job, attempts: RETRIED, reason: 'no answer within 300 ms', nextAttemptAtMs: null }],
      name,
    )
    t.ok(await waitUntil(() => receiver.connections.open === 0), 'no connection stays')
  }
})

t.test('Retry-After of a 429 is waited for, as seconds and as a date, and for an hour at most', async (t) => {
  let lines: string[] = []
  const receiver = await startReceiver(t, (line, delivery) => answering(429, ...lines)(line, delivery))
  const rig = startWebhookRig(t, { internet: { '8.8.8.8': receiver } })
  await rig.setWebhook('acme', 'https://hooks.example/')
  rig.start()
  for (const [given, seconds] of [
    [['Retry-After: 120'], 120],
    [[`Retry-After: ${inSeconds(300)}`], 300],
    [['Date: Fri, 20 Nov 2026 10:00:00 GMT', 'Retry-After: Fri, 20 Nov 2026 10:10:00 GMT'], 600],
    [['Retry-After: 86400'], 3_600],
  ] as const) {
    lines = [...given]
    const job = await rig.announce('acme')
    const find = async () => (await rig.state.outbox.list('acme', 100)).find(({ jobId }) => jobId === job)
    t.ok(await waitUntil(async () => (await find())?.reason === 'status 429'))
    const inMs = ((await find())?.nextAttemptAtMs ?? 0) - Date.now()
    t.ok(inMs > (seconds - 20) * 1000 && inMs <= seconds * 1000, `${given}: in ${inMs} ms`)
  }
})

t.test('a target that recovers is delivered to', async (t) => {
  let attempts = 0
  const behave: Behaviour = (line, delivery) => answering(++attempts < 4 ? 503 : 200)(line, delivery)
  const receiver = await startReceiver(t, behave)
  const rig = startWebhookRig(t, { internet: { '8.8.8.8': receiver } })
  await rig.setWebhook('acme', 'https://hooks.example/')
  for (const status of ['succeeded', 'failed', 'cancelled'] as const) {
    attempts = 0
    const job = await rig.announce('acme', status)
    const { startedAtMs: _, endedAtMs } = (await rig.state.jobs.get(job)) ?? {}
    const deliveries = rig.start()
    t.ok(await rig.settled())
    await deliveries.stop()
    const received = receiver.received.filter(({ body }) => body.includes(job))
    t.equal(received.length, 4)
    t.equal(
      received.at(-1)?.body,
      JSON.stringify({
        type: `transcription.job.${status}`,
        job_id: job,
        status,
        occurred_at: new Date(endedAtMs ?? 0).toISOString(),
      }),
    )
  }
  t.same(await rig.state.outbox.list(null, 10), [])
})

t.test('without a webhook, or when it was removed meanwhile, there is nothing to deliver', async (t) => {
  const receiver = await startReceiver(t, answering(500))
  const timing = { schedule: { pausesMs: [300, 300], retryAfterMaxMs: 0 } }
  const rig = startWebhookRig(t, { internet: { '8.8.8.8': receiver }, timing })
  await rig.announce('none')
  await rig.setWebhook('removed', 'https://hooks.example/')
  await rig.announce('removed')
  rig.start()
  t.ok(await waitUntil(() => receiver.received.length === 1))
  await rig.state.settings.removeWebhook('removed')
  t.ok(await waitUntil(async () => (await rig.state.outbox.list(null, 10)).length === 0))
  t.equal(receiver.received.length, 1)
  const outcomes = rig.log
    .filter(({ msg }) => msg === 'webhook')
    .map(({ workspace, outcome }) => `${workspace} ${outcome}`)
  t.same(outcomes, ['removed retry'], 'and what nobody asked for is not worth a line')
})

t.test('a delivery can be repeated, and is the same', async (t) => {
  const receiver = await startReceiver(t, answering(200))
  const rig = startWebhookRig(t, { internet: { '8.8.8.8': receiver } })
  await rig.setWebhook('acme', 'https://hooks.example/')
  const job = await rig.announce('acme')
  rig.start()
  t.ok(await waitUntil(() => receiver.received.length === 1))
  t.ok(await rig.settled())
  t.equal(await rig.state.outbox.redeliver(job), true)
  t.ok(await waitUntil(() => receiver.received.length === 2))
  const [first, second] = receiver.received as [Delivery, Delivery]
  t.equal(second.body, first.body)
  t.equal(second.headers['webhook-id'], first.headers['webhook-id'])
})

t.test('an end in this process is announced at once, not at the next look', async (t) => {
  const receiver = await startReceiver(t, answering(200))
  const rig = startWebhookRig(t, { internet: { '8.8.8.8': receiver }, timing: { pollMs: 60_000 } })
  await rig.setWebhook('acme', 'https://hooks.example/')
  rig.start()
  await sleep(100)
  for (let round = 1; round <= 5; round += 1) {
    await rig.announce('acme')
    rig.signals.ended()
    t.ok(await waitUntil(() => receiver.received.length === round), `event ${round}`)
  }
})

/** Deliveries of one workspace under way. */
const AT_ONCE = 16

t.test('many events of one workspace do not wait for the next look, nor overrun their target', async (t) => {
  let open = 0
  let most = 0
  const held: (() => void)[] = []
  const behave: Behaviour = (line, delivery) => {
    open += 1
    most = Math.max(most, open)
    held.push(() => {
      open -= 1
      answering(200)(line, delivery)
    })
    // The first ones are answered when as many are open as may be, however long the connections took; were it fewer,
    // they would never be. Later ones wait a while, in which more of them would show.
    if (most < AT_ONCE) return
    const ready = held.splice(0)
    setTimeout(() => {
      for (const answer of ready) answer()
    }, 20)
  }
  const receiver = await startReceiver(t, behave)
  const rig = startWebhookRig(t, { internet: { '8.8.8.8': receiver }, timing: { pollMs: 60_000 } })
  await rig.setWebhook('acme', 'https://hooks.example/')
  const jobs = await Promise.all(Array.from({ length: 200 }, () => rig.announce('acme')))
  rig.start()
  t.ok(await waitUntil(() => receiver.received.length === 200, 20_000))
  t.ok(await rig.settled())
  t.same(new Set(receiver.received.map(({ body }) => JSON.parse(body).job_id)), new Set(jobs), 'each once')
  t.equal(most, AT_ONCE, `${most} at a time`)
})

/** A part of the state that is away while `away()`. */
function failing(outbox: Outbox, away: (method: keyof Outbox) => boolean): Outbox {
  const check = (method: keyof Outbox) => {
    if (away(method)) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
  }
  return {
    ...outbox,
    async claim(claiming) {
      check('claim')
      return outbox.claim(claiming)
    },
    async end(event, ending) {
      check('end')
      return outbox.end(event, ending)
    },
  }
}

t.test('while the state is away nothing is claimed, and it goes on afterwards', async (t) => {
  let away = true
  const receiver = await startReceiver(t, answering(200))
  const rig = startWebhookRig(t, {
    internet: { '8.8.8.8': receiver },
    seen: (state) => ({ ...state, outbox: failing(state.outbox, (method) => method === 'claim' && away) }),
  })
  await rig.setWebhook('acme', 'https://hooks.example/')
  await rig.announce('acme')
  rig.start()
  await sleep(300)
  t.equal(receiver.received.length, 0)
  t.equal(rig.log.filter(({ msg }) => msg === 'webhook events cannot be claimed').length, 1, 'said once')
  away = false
  t.ok(await waitUntil(() => receiver.received.length === 1))
  t.ok(rig.log.some(({ msg }) => msg === 'webhook events can be claimed again'))
})

t.test(
  'an outcome that cannot be written at once is written later, and the event not sent again',
  async (t) => {
    let failures = 0
    const receiver = await startReceiver(t, answering(200))
    const rig = startWebhookRig(t, {
      internet: { '8.8.8.8': receiver },
      seen: (state) => ({
        ...state,
        outbox: failing(state.outbox, (method) => method === 'end' && failures++ < 2),
      }),
    })
    await rig.setWebhook('acme', 'https://hooks.example/')
    await rig.announce('acme')
    rig.start()
    t.ok(await waitUntil(async () => (await rig.state.outbox.list(null, 10)).length === 0))
    t.equal(receiver.received.length, 1)
    t.equal(failures, 3)
  },
)

t.test('an outcome that cannot be written at all is delivered again', async (t) => {
  let away = true
  const receiver = await startReceiver(t, answering(200))
  const rig = startWebhookRig(t, {
    internet: { '8.8.8.8': receiver },
    timing: { leaseMs: 400 },
    seen: (state) => ({ ...state, outbox: failing(state.outbox, (method) => method === 'end' && away) }),
  })
  await rig.setWebhook('acme', 'https://hooks.example/')
  await rig.announce('acme')
  rig.start()
  t.ok(await waitUntil(() => receiver.received.length >= 2))
  away = false
  t.ok(await waitUntil(async () => (await rig.state.outbox.list(null, 10)).length === 0))
  const [first, ...again] = receiver.received
  for (const delivery of again) {
    t.equal(delivery.body, first?.body)
    t.equal(delivery.headers['webhook-id'], first?.headers['webhook-id'], 'receivers can tell')
  }
})

t.test('a secret that no key opens: later, another node or a new secret may do', async (t) => {
  const receiver = await startReceiver(t, answering(200))
  const rig = startWebhookRig(t, { internet: { '8.8.8.8': receiver } })
  await rig.setWebhook('acme', 'https://hooks.example/')
  const [key] = rig.secretKeys.splice(0)
  await rig.announce('acme')
  rig.start()
  const reason = async () => (await rig.state.outbox.list('acme', 1))[0]?.reason
  t.ok(await waitUntil(async () => (await reason())?.includes('LARKWAY_SECRET_KEYS') === true))
  t.equal(receiver.received.length, 0)
  if (key !== undefined) rig.secretKeys.push(key)
  await rig.state.outbox.redeliver((await rig.state.outbox.list('acme', 1))[0]?.jobId ?? '')
  t.ok(await waitUntil(() => receiver.received.length === 1))
})

t.test('it stops when what is under way has ended', async (t) => {
  const held: (() => void)[] = []
  const receiver = await startReceiver(t, (line, delivery) => {
    held.push(() => answering(200)(line, delivery))
  })
  const rig = startWebhookRig(t, { internet: { '8.8.8.8': receiver } })
  await rig.setWebhook('acme', 'https://hooks.example/')
  await Promise.all(Array.from({ length: 40 }, () => rig.announce('acme')))
  const deliveries = rig.start()
  t.ok(await waitUntil(() => held.length === 16))
  t.equal(deliveries.running, 16)
  let stopped = false
  const stopping = deliveries.stop().then(() => {
    stopped = true
  })
  await sleep(100)
  t.equal(stopped, false)
  for (const release of held) release()
  await stopping
  t.equal(deliveries.running, 0)
  t.equal((await rig.state.outbox.list(null, 100)).length, 24, 'their outcome is written, the others wait')
  await sleep(150)
  t.equal(receiver.received.length, 16, 'and nothing more is sent')
})

t.test('callbacks that cannot be told now, or never', async (t) => {
  const receiver = await startReceiver(t, (line, delivery) =>
    answering(Number(delivery.path.slice(1)))(line, delivery),
  )
  const internet = { '8.8.8.8': receiver }
  const url = (status: number) => `https://hooks.example/${status}`
  const headers = { 'x-receiver': 'lark' }
  let refusals = 3
  const rig = startWebhookRig(t, {
    internet,
    callbacks: {
      openResult: async (job, result) => {
        if (job.workspace === 'full' && refusals-- > 0) throw new GatewayError('OVERLOADED')
        return 'text' in result ? result.text : ''
      },
      state: {
        jobs: {
          get: async (id) => (id === gone.id ? null : rig.state.jobs.get(id)),
        } as typeof rig.state.jobs,
      },
    },
  })
  const gone = { id: '' }
  const ended: Record<string, string> = {}
  for (const [name, status] of [
    ...([
      ['full', 200],
      ['client', 404],
      ['timeout', 408],
      ['hurried', 429],
      ['server', 500],
    ] as const),
    ...([
      ['gone', 200],
      ['foreign', 200],
    ] as const),
  ]) {
    // Sealed with a key that is thrown away.
    if (name === 'foreign') rig.secretKeys.unshift(Buffer.alloc(32, 7))
    ended[name] = await rig.announceTo({ url: url(status), headers }, name)
    if (name === 'foreign') rig.secretKeys.shift()
  }
  gone.id = ended.gone ?? ''
  rig.start()
  t.ok(await rig.settled())
  const left = new Map((await rig.state.outbox.list(null, 100)).map((event) => [event.jobId, event]))
  const outcome = (name: string) => {
    const { attempts, reason, nextAttemptAtMs } = left.get(ended[name] ?? '') ?? {}
    return left.has(ended[name] ?? '') ? [attempts, reason, nextAttemptAtMs] : null
  }
  t.same(outcome('full'), null, 'delivered as soon as there is memory')
  t.same(outcome('client'), [1, 'status 404', null])
  t.same(outcome('timeout'), [RETRIED, 'status 408', null])
  t.same(outcome('hurried'), [RETRIED, 'status 429', null])
  t.same(outcome('server'), [RETRIED, 'status 500', null])
  t.same(outcome('gone'), [1, 'the job is no longer kept', null])
  t.match(outcome('foreign'), [RETRIED, /^its callback was sealed with a key/, null])
  const [taken] = receiver.received.filter(({ path }) => path === '/200')
  t.match(taken, { method: 'POST', headers: { ...headers, 'x-lk-webhook-id': /^cbk_/ } })
  t.equal(taken?.body, JSON.stringify({ transcript_id: ended.full, status: 'completed' }))
})
