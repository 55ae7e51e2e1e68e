import t from 'tap'
import { Cancellation } from '../../../src/contracts/cancellation.ts'
import type { Target } from '../../../src/contracts/provider.ts'
import { nextTurn, systemClock } from '../../../src/contracts/time.ts'
import { type AttemptOptions, runOperation } from '../../../src/gateway/call/attempt/operation.ts'

const STEP = { request: { method: 'POST', url: 'http://127.0.0.1:1/', headers: {} }, state: null } as const
const KIB = 1024

for (const [what, bytes, steps, most] of [
  ['large answers that come together are parsed in a turn each', 256 * KIB, 1, 1],
  ['also as a later step', 256 * KIB, 2, 1],
  ['small ones are not kept waiting', 255 * KIB, 1, 3],
] as const)
  t.test(what, async (t) => {
    let turn = 0
    let isOver = false
    const counting = (async () => {
      for (; !isOver; turn += 1) await nextTurn()
    })()
    const parsedIn: number[] = []
    const operation = {
      start: () => ({ kind: 'send', ...STEP, state: steps }) as const,
      next(left: unknown) {
        parsedIn.push(turn)
        const step = Number(left) - 1
        return step > 0
          ? ({ kind: 'send', ...STEP, state: step } as const)
          : ({ kind: 'done', result: turn } as const)
      },
    }
    const reply = { status: 200, headers: {}, body: [new Uint8Array(bytes - 1), new Uint8Array(1)] }
    const options: AttemptOptions = {
      send: async () => reply,
      clock: systemClock,
      signal: new Cancellation(),
      traceContext: undefined,
      deadlineAtMs: systemClock.now() + 60_000,
      memory: { charge: () => {}, release: () => {} },
      checkpoint: null,
    }
    const runs = Array.from({ length: 3 }, () =>
      runOperation(operation as never, null, {} as Target, options),
    )
    for (const end of await Promise.all(runs)) t.ok('result' in end)
    isOver = true
    await counting
    t.equal(parsedIn.length, 3 * steps)
    const counts = parsedIn.map((one) => parsedIn.filter((other) => other === one).length)
    t.equal(Math.max(...counts), most)
  })
