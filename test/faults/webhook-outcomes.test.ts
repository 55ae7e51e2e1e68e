import t from 'tap'
import { residentMiB } from '../support/process-load.ts'
import { waitUntil } from '../support/wait-until.ts'
import {
  answering,
  type Behaviour,
  dripping,
  endless,
  hanging,
  resetting,
  sending,
  startReceiver,
} from '../support/webhook-receiver.ts'
import { startWebhookRig } from '../support/webhook-rig.ts'
import { forged, isVerified } from '../support/webhook-signatures.ts'

t.setTimeout(240_000)

/** Events of each kind, each of a workspace of its own. */
const EVENTS = 100
/** A shorter schedule than the real one: what follows the last attempt is the same. */
const ATTEMPTS = 3

/** What a target does, how often it is tried, and what becomes of the event; null: it is delivered. */
const OUTCOMES: Record<string, [behave: Behaviour, attempts: number, reason: RegExp | null]> = {
  '200': [answering(200), 1, null],
  '204': [sending('HTTP/1.1 204 No Content\r\n\r\n'), 1, null],
  '301': [answering(301, 'Location: /200'), ATTEMPTS, /^status 301$/],
  '400': [answering(400), ATTEMPTS, /^status 400$/],
  '404': [answering(404), ATTEMPTS, /^status 404$/],
  '410': [answering(410), 1, /^status 410$/],
  '429': [answering(429, 'Retry-After: 1'), ATTEMPTS, /^status 429$/],
  '500': [answering(500), ATTEMPTS, /^status 500$/],
  '502': [answering(502), ATTEMPTS, /^status 502$/],
  hang: [hanging, ATTEMPTS, /^no answer within/],
  reset: [resetting, ATTEMPTS, /^the connection broke/],
  drip: [dripping(250), ATTEMPTS, /^no answer within/],
  endless: [endless({ bytes: 0 }), 1, null],
  ssh: [sending('SSH-2.0-OpenSSH_9.2\r\n'), ATTEMPTS, /^the answer cannot be read$/],
}

type Target = readonly [name: string, url: string, attempts: number, reason: RegExp | null]

t.test(
  'a hundred events of every kind of target end as they should, and every delivery is signed',
  async (t) => {
    const behave: Behaviour = (line, delivery) =>
      OUTCOMES[delivery.path.split('/')[1] ?? '']?.[0](line, delivery)
    // Without TLS, for the sake of time; certificates have a row of their own.
    const receiver = await startReceiver(t, behave, { names: null })
    const wrong = await startReceiver(t, answering(200), { names: ['other.example'] })
    const rig = startWebhookRig(t, {
      internet: { '127.0.0.1': receiver, '8.8.4.4': wrong },
      addresses: { 'wrong.example': '8.8.4.4', 'private.example': '192.168.0.1' },
      post: { insecure: true, timing: { totalMs: 5_000, bodyMs: 500 } },
      timing: { schedule: { pausesMs: Array(ATTEMPTS - 1).fill(50), retryAfterMaxMs: 3_600_000 } },
    })
    const local = `http://127.0.0.1:${receiver.port}`
    const targets: readonly Target[] = [
      ...Object.entries(OUTCOMES).map(
        ([name, [, attempts, reason]]): Target => [name, `${local}/${name}`, attempts, reason],
      ),
      ['tls', 'https://wrong.example', ATTEMPTS, /^no connection \(ERR_TLS_CERT_ALTNAME_INVALID\)$/],
      ['private', 'https://private.example', 1, /^the host has an address that is not public$/],
    ]
    const secrets = new Map<string, string>()
    for (const [name, url] of targets) {
      await Promise.all(
        Array.from({ length: EVENTS }, async (_, index) => {
          const workspace = `${name}-${index}`
          secrets.set(`/${name}/${index}`, await rig.setWebhook(workspace, `${url}/${index}`))
          await rig.announce(workspace)
        }),
      )
    }
    const beforeMib = residentMiB(process.pid)
    const deliveries = rig.start()
    const ended = () => rig.log.filter(({ msg, outcome }) => msg === 'webhook' && outcome !== 'retry')
    t.ok(await waitUntil(() => ended().length === EVENTS * targets.length, 120_000), 'all come to an end')
    t.ok(await waitUntil(() => deliveries.running === 0), 'which is written')
    const grownMib = residentMiB(process.pid) - beforeMib
    t.ok(
      grownMib < 300,
      `memory grew by ${Math.round(grownMib)} MiB, that of the targets and the log included`,
    )

    for (const [name, , attempts, reason] of targets) {
      const ends = ended().filter(({ workspace }) => String(workspace).startsWith(`${name}-`))
      const state = reason === null ? 'delivered' : 'given_up'
      t.equal(ends.length, EVENTS, `${name}: each ends once`)
      t.ok(
        ends.every((line) => line.outcome === state && line.attempt === attempts),
        `${name}: ${state}`,
      )
      const kept = await Promise.all(
        Array.from({ length: EVENTS }, (_, index) => rig.state.outbox.list(`${name}-${index}`, 2)),
      )
      t.ok(
        kept.every(
          ([event, ...more]) => more.length === 0 && ((event?.reason ?? null) === null) === (reason === null),
        ),
        `${name}: what is kept`,
      )
      const reasons = new Set(kept.flat().map((event) => event.reason ?? ''))
      t.ok(reason === null || [...reasons].every((text) => reason.test(text)), `${name}: ${[...reasons]}`)
    }
    t.equal(wrong.received.length, 0, 'nothing is sent past a wrong certificate')

    let bad = 0
    for (const delivery of receiver.received)
      if (!isVerified(secrets.get(delivery.path) ?? '', delivery)) bad += 1
    t.equal(bad, 0, `${receiver.received.length} deliveries, all verified`)
    t.ok(receiver.received.length >= EVENTS * (5 + 9 * ATTEMPTS))
    // OpenSSL takes a secret at a time: those of one target of each kind.
    for (const name of Object.keys(OUTCOMES)) {
      const path = `/${name}/0`
      const received = receiver.received.filter((delivery) => delivery.path === path)
      t.same(await forged(t, secrets.get(path) ?? '', received), [], `${name}: as OpenSSL signs`)
    }
  },
)
