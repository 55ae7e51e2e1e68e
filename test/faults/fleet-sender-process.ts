import { Socket } from 'node:net'
import { pino } from 'pino'
import type { Outbox, WebhookEvent } from '../../src/contracts/outbox.ts'
import { systemClock } from '../../src/contracts/time.ts'
import { CALLBACK_FORMS } from '../../src/gateway/api/table.ts'
import { createJobSignals } from '../../src/gateway/jobs/watch.ts'
import { dialAddress } from '../../src/gateway/outbound/connect-address.ts'
import { createWebhookPoster } from '../../src/gateway/outbound/post-webhook.ts'
import { openEmbeddedState } from '../../src/gateway/state/embedded/state.ts'
import { createRedisState } from '../../src/gateway/state/redis/state.ts'
import { startDeliveries } from '../../src/gateway/webhooks/deliveries.ts'
import { createWorkers } from '../../src/gateway/workers/pool.ts'
import type { SenderOrder } from './fleet-sender.ts'

/**
 * A process that delivers webhooks by the product's own loop, and stops for good where it is told to. It tells on
 * standard output, a line for each, what has come there.
 */
const { place, secretKey, leaseMs, events, holdAt } = JSON.parse(process.argv[2] ?? '') as SenderOrder
const log = pino({ level: 'silent' })
const state =
  'file' in place
    ? await openEmbeddedState({ file: place.file, log })
    : await createRedisState({ url: place.redisUrl, log })

function hold(count = 1): Promise<never> {
  process.stdout.write('held\n'.repeat(count))
  return new Promise(() => {})
}

/** All events there are, in however many claims. */
async function claimAll(claiming: Parameters<Outbox['claim']>[0]): Promise<never> {
  const claimed: WebhookEvent[] = []
  while (claimed.length < events) claimed.push(...(await state.outbox.claim(claiming)))
  return hold(claimed.length)
}

const outbox: Outbox = {
  ...state.outbox,
  claim(claiming) {
    if (holdAt === 'before the claim') return hold(events)
    return holdAt === 'after the claim' ? claimAll(claiming) : state.outbox.claim(claiming)
  },
  end: (event, ending) => (holdAt === 'after the answer' ? hold() : state.outbox.end(event, ending)),
}

startDeliveries({
  state: { settings: state.settings, outbox },
  secretKeys: [Buffer.from(secretKey, 'base64')],
  signer: createWorkers().signer,
  signals: createJobSignals(),
  clock: systemClock,
  log,
  callbacks: {
    state,
    forms: CALLBACK_FORMS,
    openResult: async (_, result) => ('text' in result ? result.text : hold()),
  },
  post: createWebhookPoster({
    insecure: true,
    dial(address, port) {
      if (holdAt !== 'while connecting') return dialAddress(address, port)
      void hold()
      // As one to an address that nobody answers at.
      return new Socket()
    },
  }),
  timing: { leaseMs, pollMs: 50 },
})
