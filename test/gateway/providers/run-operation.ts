import type { Test } from 'tap'
import type { AudioReader } from '../../../src/contracts/audio.ts'
import type { Operation, Target } from '../../../src/contracts/provider.ts'
import type { Failure } from '../../../src/contracts/upstream.ts'
import { createSender } from '../../../src/gateway/outbound/send.ts'

const ask = { deadlineMs: 20_000, signal: new AbortController().signal, onHeld: () => {} }

/** Drives operations over real sockets, as the gateway does but for its failover and its waits. */
export function operationRunner(t: Pick<Test, 'teardown'>, reader: AudioReader) {
  const sender = createSender({ reader })
  t.teardown(() => sender.close())
  return {
    /** The result, or how it failed. */
    async run<Call, Result, Delta>(
      operation: Operation<Call, Result, Delta>,
      call: Call,
      target: Target,
    ): Promise<Result | Failure> {
      let step = operation.start(call, target)
      for (;;) {
        if (step.kind === 'done') return step.result
        if (step.kind === 'failed') return step.failure
        const reply = await sender.send(step.request, ask)
        step = operation.next(step.state, reply, call, target)
      }
    },

    /** The pieces and the result, or how it failed. */
    async stream<Call, Result, Delta>(
      operation: Operation<Call, Result, Delta>,
      call: Call,
      target: Target,
    ): Promise<{ readonly deltas: readonly Delta[]; readonly result: Result } | Failure> {
      const { streamed } = operation
      if (streamed === undefined) throw new Error('the operation is not streamed')
      const first = streamed.start(call, target)
      if (first.kind === 'failed') return first.failure
      const { chunks, ...head } = await sender.open(first.request, ask)
      if (head.status !== 200) {
        const body: Uint8Array[] = []
        for await (const chunk of chunks) body.push(chunk)
        return streamed.refused({ ...head, body })
      }
      const answer = streamed.read(head, call, target)
      const deltas: Delta[] = []
      for await (const chunk of chunks) {
        const pushed = answer.push(chunk)
        if ('kind' in pushed) return pushed
        deltas.push(...pushed)
      }
      const end = answer.end()
      return 'kind' in end ? end : { deltas, result: end.result }
    },
  }
}
