import t from 'tap'
import { Dice } from '../support/dice.ts'
import { waitUntil } from '../support/wait-until.ts'
import { answering, type Delivery, startReceiver } from '../support/webhook-receiver.ts'
import { startWebhookRig } from '../support/webhook-rig.ts'
import { forged, isVerified } from '../support/webhook-signatures.ts'

t.setTimeout(300_000)

const WORKSPACES = 10
const EVENTS = 1_000

type Part = 'body' | 'timestamp' | 'signature'

/** The delivery with one bit of a part of it changed, in both kinds of headers. */
function mutated(delivery: Delivery, part: Part, dice: Dice): Delivery {
  const { headers, body } = delivery
  const flip = (text = '', from = 0, end = text.length, bit = 1 << dice.below(3)) => {
    const at = from + dice.below(end - from)
    return text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ bit) + text.slice(at + 1)
  }
  if (part === 'body') return { ...delivery, body: flip(body) }
  const { 'webhook-timestamp': timestamp, 'webhook-signature': standard } = headers
  const { 'x-lk-webhook-signature': plain } = headers
  // One second more or less stays a number, and a fresh one.
  const time = flip(timestamp, (timestamp?.length ?? 0) - 1, timestamp?.length, 1)
  const changed =
    part === 'timestamp'
      ? { 'webhook-timestamp': time, 'x-lk-webhook-ts': time }
      : // The last character of the base64 has bits that encode nothing.
        { 'webhook-signature': flip(standard, 3, 45), 'x-lk-webhook-signature': flip(plain) }
  return { ...delivery, headers: { ...headers, ...changed } }
}

t.test('10,000 deliveries are verified, and none of them when a bit of it was changed', async (t) => {
  const receiver = await startReceiver(t, answering(200), { names: null })
  const rig = startWebhookRig(t, {
    internet: { '127.0.0.1': receiver },
    post: { insecure: true, timing: { totalMs: 10_000, bodyMs: 500 } },
  })
  const secrets = new Map<string, string>()
  for (let index = 0; index < WORKSPACES; index += 1) {
    const workspace = `ws-${index}`
    const url = `http://127.0.0.1:${receiver.port}/${workspace}`
    secrets.set(`/${workspace}`, await rig.setWebhook(workspace, url))
    for (let made = 0; made < EVENTS; made += 100)
      await Promise.all(Array.from({ length: 100 }, () => rig.announce(workspace)))
  }
  rig.start()
  const all = WORKSPACES * EVENTS
  const jobs = () => new Set(receiver.received.map(({ body }) => body))
  t.ok(await waitUntil(() => receiver.received.length >= all && jobs().size === all, 300_000))

  const dice = new Dice(20_261_120)
  const parts = ['body', 'timestamp', 'signature'] as const
  const counts = { forged: 0, unverified: 0, changed: 0, refused: 0, unverifiedChanged: 0 }
  for (const [path, secret] of secrets) {
    const received = receiver.received.filter((delivery) => delivery.path === path)
    counts.forged += (await forged(t, secret, received)).length
    counts.unverified += received.filter((delivery) => !isVerified(secret, delivery)).length
    const changed = received.map((delivery) => mutated(delivery, dice.one(parts), dice))
    counts.changed += changed.length
    counts.refused += (await forged(t, secret, changed)).length
    counts.unverifiedChanged += changed.filter((delivery) => !isVerified(secret, delivery)).length
  }
  const { changed } = counts
  t.ok(changed >= all)
  t.same(counts, { forged: 0, unverified: 0, changed, refused: changed, unverifiedChanged: changed })
})
