import t from 'tap'
import type { GatewayError } from '../../../src/contracts/errors.ts'
import { NativeBody, PAUSED_BYTES_MAX } from '../../../src/gateway/edge/native-body.ts'
import { Socket } from '../../../src/gateway/edge/socket.ts'
import { EDGE_TIMING } from '../../../src/gateway/edge/timing.ts'
import { UploadTurns } from '../../../src/gateway/edge/upload-turns.ts'
import type { HttpResponse } from '../../../src/gateway/edge/uws.ts'
import { createBudget } from '../../../src/gateway/storage/budget.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const MIB = 1024 * 1024
/** As much as one native read brings. */
const READ = Buffer.alloc(MIB / 2)

/** A body whose sender does not heed pauses, and whose consumer asks for one with its first chunk. */
function unheeded(budgetBytes: number) {
  const calls: string[] = []
  const response = { pause: () => calls.push('pause'), resume: () => calls.push('resume') }
  const clock = new VirtualClock()
  const socket = new Socket(response as unknown as HttpResponse, clock, 0)
  const budget = createBudget(budgetBytes, undefined, clock)
  const context = { budget, timing: EDGE_TIMING, turns: new UploadTurns(budget) }
  const body = new NativeBody(socket, context, 0, 1024 * MIB)
  const taken = { bytes: 0, error: null as GatewayError | null }
  body.consume({
    onChunk(chunk) {
      taken.bytes += chunk.length
      body.pause()
    },
    onError(error) {
      taken.error = error as GatewayError
    },
  })
  return { body, socket, taken }
}

for (const [budgetBytes, most] of [
  [16 * MIB, PAUSED_BYTES_MAX],
  [128 * MIB, 128 * MIB],
] as const)
  t.test(`a body that goes on after a pause is refused, budget ${budgetBytes / MIB} MiB`, async (t) => {
    const { body, taken } = unheeded(budgetBytes)
    while (taken.error === null && body.receivedBytes < 512 * MIB) body.receive(READ, false)
    t.match(taken.error, { code: 'OVERLOADED' })
    t.equal(taken.bytes, READ.length + most, 'the chunk before the pause, and what may come after it')
    body.receive(READ, false)
    t.equal(taken.bytes, READ.length + most, 'nothing more is handed on')
  })

t.test('what comes between pauses that are heeded is not counted together', async (t) => {
  const { body, taken } = unheeded(16 * MIB)
  while (body.receivedBytes < 512 * MIB) {
    body.receive(READ, false)
    body.resume()
  }
  t.equal(taken.error, null)
  t.equal(taken.bytes, body.receivedBytes)
})
