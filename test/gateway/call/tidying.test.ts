import t from 'tap'
import type { VideoCall, VideoResult } from '../../../src/contracts/generation.ts'
import type { Ending, Operation, Provider } from '../../../src/contracts/provider.ts'
import { entryAt, gatewayRig, runWhole, upstream } from '../../support/gateway-rig.ts'

const PAYLOAD: VideoCall = { prompt: 'a lark', duration_seconds: null, size: null, seed: null }

function made(warnings: readonly string[]): Ending<VideoResult> {
  const videos = [{ kind: 'url', url: 'https://cdn.example.com/v.mp4', media_type: 'video/mp4' } as const]
  return { kind: 'done', result: { videos, seconds: 1, credits: null, warnings } }
}

/** Makes at once, and then tidies up. */
const tidy: Operation<VideoCall, VideoResult> = {
  start: (_call, { baseUrl }) => ({
    kind: 'send',
    request: { method: 'POST', url: `${baseUrl}/videos`, headers: {}, body: [] },
    state: 'made',
  }),
  next: (state, _reply, _call, { baseUrl }) =>
    state === 'tidied'
      ? made([])
      : {
          kind: 'send',
          request: { method: 'DELETE', url: `${baseUrl}/videos`, headers: {}, body: [] },
          state: 'tidied',
          otherwise: made(['it was not deleted']),
        },
}
const studio: Provider = { kind: 'tidy', baseUrl: null, needsCredential: false, video: tidy }

t.test('what only tidies up does not cost the answer when it gets none', { timeout: 30_000 }, async (t) => {
  const rows: [what: string, breaks: boolean, hangs: boolean, warnings: string[]][] = [
    ['it is deleted', false, false, []],
    ['the connection breaks', true, false, ['it was not deleted']],
    ['no answer comes', false, true, ['it was not deleted']],
  ]
  for (const [what, breaks, hangs, warnings] of rows) {
    const { origin, requests } = await upstream(t, (response, { method }) => {
      if (method === 'POST' || !(breaks || hangs)) response.end('{}')
      else if (breaks) response.destroy()
    })
    const entries = [entryAt(origin, { kind: 'tidy' }), entryAt(origin, { kind: 'tidy' })]
    const { services, request } = gatewayRig(t, { entries, providers: [studio], deadlineMs: 60_000 })
    const call = request('video', PAYLOAD)
    const startedMs = performance.now()
    const { result, release } = await runWhole(services, call)
    release()
    t.same(result.warnings, warnings, what)
    t.equal(requests.length, 2, `${what}: one order, one deletion`)
    t.equal(call.context.routing.attempts.length, 1)
    t.ok(performance.now() - startedMs < 20_000, 'not waited for as for an answer')
  }
})
