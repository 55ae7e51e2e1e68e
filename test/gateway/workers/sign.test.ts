import { createHmac, randomBytes } from 'node:crypto'
import t from 'tap'
import type { Signable } from '../../../src/contracts/webhooks.ts'
import { createSigner, createWorkers, SIGN_OFFLOAD_COUNT } from '../../../src/gateway/workers/pool.ts'

import { signWebhook } from '../../../src/gateway/workers/webhook-signature.ts'
import { opensslHmac } from '../../support/webhook-signatures.ts'

const secret = () => `whsec_${randomBytes(32).toString('base64')}`

function signable(index: number, secrets: readonly string[] = [secret()]): Signable {
  return { id: `evt_${index}`, timestamp: 1_795_000_000 + index, body: `{"job_id":"tj_${index}"}`, secrets }
}

t.test('known signatures', async (t) => {
  const secrets = ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw']
  // The example of the reference libraries of Standard Webhooks.
  const known = { id: 'msg_p5jXN8AQM9LWM0D4loKWxJek', timestamp: 1_614_265_330, body: '{"test": 2432232314}' }
  const { plain, standard } = signWebhook({ ...known, secrets })
  t.equal(standard, 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=')
  t.same([plain], await opensslHmac(t, secrets[0]!, [`${known.timestamp}.${known.body}`]))
  t.throws(() => signWebhook({ ...known, secrets: [] }), /at least one secret/)
})

t.test('the newest secret signs alone, and all of them in order', async (t) => {
  const [newest, older] = [secret(), secret()]
  const both = signWebhook(signable(1, [newest, older]))
  const [one, other] = [newest, older].map((each) => signWebhook(signable(1, [each])))
  t.equal(both.plain, one?.plain)
  t.equal(both.standard, `${one?.standard} ${other?.standard}`)
})

t.test('a worker signs as the event loop does, and each asker gets what is its own', async (t) => {
  const { signer, close } = createWorkers()
  t.teardown(close)
  for (const count of [1, SIGN_OFFLOAD_COUNT - 1, SIGN_OFFLOAD_COUNT, 500]) {
    const signables = Array.from({ length: count }, (_, index) => signable(index))
    const signed = await Promise.all(signables.map((each) => signer.sign(each)))
    t.same(signed, signables.map(signWebhook), `${count} at once`)
  }
  const plain = createHmac('sha256', 'whsec_').update('1.{}').digest('hex')
  t.equal((await signer.sign({ id: 'evt_1', timestamp: 1, body: '{}', secrets: ['whsec_'] })).plain, plain)
})

t.test('only what is many goes to a worker, in one task', async (t) => {
  const batches: number[] = []
  const signer = createSigner(async (signables) => {
    batches.push(signables.length)
    return signables.map(signWebhook)
  })
  const signMany = (count: number) =>
    Promise.all(Array.from({ length: count }, (_, index) => signer.sign(signable(index))))
  await signMany(SIGN_OFFLOAD_COUNT - 1)
  t.same(batches, [])
  await signMany(SIGN_OFFLOAD_COUNT)
  await signMany(300)
  t.same(batches, [SIGN_OFFLOAD_COUNT, 300])
})

t.test('a worker that fails fails those who asked, and nobody after them', async (t) => {
  let fails = true
  const signer = createSigner(async (signables) => {
    if (fails) throw new Error('the thread ended')
    return signables.map(signWebhook).slice(1)
  })
  const signMany = () =>
    Promise.allSettled(Array.from({ length: SIGN_OFFLOAD_COUNT }, (_, index) => signer.sign(signable(index))))
  t.same(new Set((await signMany()).map(({ status }) => status)), new Set(['rejected']))
  fails = false
  const short = await signMany()
  t.equal(short.filter(({ status }) => status === 'rejected').length, 1, 'one too few')
  t.ok(await signer.sign(signable(1)))
})
