import t, { type Test } from 'tap'
import { waitUntil } from '../../support/wait-until.ts'
import { answering, type Behaviour, type Delivery, startReceiver } from '../../support/webhook-receiver.ts'
import { startWebhookRig } from '../../support/webhook-rig.ts'
import { forged, isVerified, opensslHmac, signedText } from '../../support/webhook-signatures.ts'

t.setTimeout(60_000)

const URL_OF_HOOK = 'https://hooks.example/'
const DAY_MS = 86_400_000

async function start(t: Test, behave: Behaviour = answering(200), pausesMs: readonly number[] = []) {
  const receiver = await startReceiver(t, behave)
  const rig = startWebhookRig(t, {
    internet: { '8.8.8.8': receiver },
    timing: { schedule: { pausesMs, retryAfterMaxMs: 0 } },
  })
  return { receiver, rig }
}

/** The text with one bit of one of its characters changed. */
function mutated(text: string, at: number): string {
  const place = at % text.length
  return text.slice(0, place) + String.fromCharCode(text.charCodeAt(place) ^ 1) + text.slice(place + 1)
}

t.test('every delivery carries both signatures, and none that was changed is verified', async (t) => {
  const COUNT = 200
  const { receiver, rig } = await start(t)
  const secret = await rig.setWebhook('acme', URL_OF_HOOK)
  await Promise.all(Array.from({ length: COUNT }, () => rig.announce('acme')))
  rig.start()
  t.ok(await waitUntil(() => receiver.received.length === COUNT, 20_000))
  const { received } = receiver

  t.same(await forged(t, secret, received), [], 'as OpenSSL signs')
  t.ok(
    received.every((delivery) => isVerified(secret, delivery)),
    'as the library verifies',
  )
  for (const { headers } of received) {
    t.equal(headers['webhook-id'], headers['x-lk-webhook-id'])
    t.equal(headers['webhook-timestamp'], headers['x-lk-webhook-ts'])
    const ageS = Date.now() / 1000 - Number(headers['x-lk-webhook-ts'])
    if (!(ageS >= 0 && ageS < 30)) t.fail(`signed ${ageS} s ago`)
    if (!/^v1,[A-Za-z0-9+/]{43}=$/.test(headers['webhook-signature'] ?? '')) t.fail('one signature')
    if (!/^[0-9a-f]{64}$/.test(headers['x-lk-webhook-signature'] ?? '')) t.fail('lower-case hex')
  }

  const key = `hexkey:${Buffer.from(secret.slice('whsec_'.length), 'base64').toString('hex')}`
  const standard = received.map((delivery) => `${delivery.headers['webhook-id']}.${signedText(delivery)}`)
  t.same(
    (await opensslHmac(t, key, standard)).map((hex) => `v1,${Buffer.from(hex, 'hex').toString('base64')}`),
    received.map(({ headers }) => headers['webhook-signature']),
    'the second one by OpenSSL, too',
  )

  const changes = received.flatMap(({ headers, body, ...rest }, index): Delivery[] => [
    { ...rest, headers, body: mutated(body, index) },
    { ...rest, body, headers: { ...headers, ...changedTime(headers, index) } },
    { ...rest, body, headers: { ...headers, ...changedSignatures(headers, index) } },
  ])
  t.equal((await forged(t, secret, changes)).length, changes.length)
  t.equal(changes.filter((delivery) => isVerified(secret, delivery)).length, 0)
  const other = await rig.setWebhook('other', URL_OF_HOOK)
  t.equal((await forged(t, other, received)).length, COUNT, "another's secret")
  t.equal(received.filter((delivery) => isVerified(other, delivery)).length, 0)
})

function changedTime(headers: Delivery['headers'], by: number) {
  const changed = String(Number(headers['webhook-timestamp']) - 1 - (by % 60))
  return { 'webhook-timestamp': changed, 'x-lk-webhook-ts': changed }
}

function changedSignatures(headers: Delivery['headers'], at: number) {
  const { 'webhook-signature': standard = '', 'x-lk-webhook-signature': plain = '' } = headers
  return {
    'webhook-signature': `v1,${mutated(standard.slice(3), at % 43)}`,
    'x-lk-webhook-signature': mutated(plain, at),
  }
}

t.test('each attempt is signed anew, with the time that it is', async (t) => {
  let attempts = 0
  const behave: Behaviour = (line, delivery) => answering(++attempts < 3 ? 500 : 200)(line, delivery)
  const { receiver, rig } = await start(t, behave, [1_500, 1_500])
  const secret = await rig.setWebhook('acme', URL_OF_HOOK)
  await rig.announce('acme')
  rig.start()
  t.ok(await waitUntil(() => receiver.received.length === 3))
  const stamps = receiver.received.map(({ headers }) => Number(headers['x-lk-webhook-ts']))
  t.ok(stamps[0]! < stamps[1]! && stamps[1]! < stamps[2]!, stamps.join(' '))
  t.same(await forged(t, secret, receiver.received), [])
  t.ok(receiver.received.every((delivery) => isVerified(secret, delivery)))
})

t.test('a new secret signs what waits already, and the one before beside it while it is kept', async (t) => {
  let status = 500
  const behave: Behaviour = (line, delivery) => answering(status)(line, delivery)
  const { receiver, rig } = await start(t, behave, Array(20).fill(100))
  const first = await rig.setWebhook('acme', URL_OF_HOOK)
  await rig.announce('acme')
  rig.start()
  t.ok(await waitUntil(() => receiver.received.length > 0))
  t.ok(isVerified(first, receiver.received[0]!))

  const second = await rig.setWebhook('acme', URL_OF_HOOK, DAY_MS)
  const before = receiver.received.length
  t.ok(await waitUntil(() => receiver.received.length >= before + 3))
  const rotated = receiver.received.at(-1)!
  const [newest = '', older = '', ...more] = rotated.headers['webhook-signature']?.split(' ') ?? []
  t.same(more, [])
  const only = (signature: string) => ({
    ...rotated,
    headers: { ...rotated.headers, 'webhook-signature': signature },
  })
  t.ok(isVerified(second, only(newest)) && !isVerified(second, only(older)), 'the newest first')
  t.ok(isVerified(first, only(older)) && !isVerified(first, only(newest)), 'and the one before')
  t.same(await forged(t, second, [rotated]), [], 'our own header is of the newest alone')
  t.equal((await forged(t, first, [rotated])).length, 1)

  const third = await rig.setWebhook('acme', URL_OF_HOOK, 1)
  const after = receiver.received.length
  t.ok(await waitUntil(() => receiver.received.length >= after + 3))
  status = 200
  const last = receiver.received.at(-1)!
  t.match(last.headers['webhook-signature'], /^v1,\S+$/, 'one that is not kept any more signs nothing')
  t.ok(isVerified(third, last))
  t.notOk(isVerified(second, last))
  t.same(await forged(t, third, [last]), [])
})
