import { bareRelay, type Found, larkway } from '../candidates.ts'
import type { Session, Trial } from '../harness/measure.ts'
import { larkwayLive } from '../larkway.ts'
import type { LiveReport, LiveTask } from '../load/live.ts'
import { type Scenario, sort } from './scenario.ts'

const SESSIONS = [100, 500, 1_000]
const IDLE_SESSIONS = 5_000
const SECONDS = 12

type LiveRequest = Pick<LiveTask, 'path' | 'authorizations'>

/** Live audio: 20 ms frames of 16 kHz PCM at real time, and text that comes back every 200 ms of it. */
export const live: Scenario = {
  name: 'live',
  title: 'Live transcription, 50 frames a second from every session',
  cpuUnit: 'us/request',
  network: 'system',
  rounds: 3,
  upstream: { program: 'live-upstream.ts', args: [] },

  async plan({ quick }) {
    const own = larkwayLive()
    const candidates: readonly (readonly [Found, LiveRequest])[] = [
      [
        larkway({
          name: 'larkway',
          label: 'Larkway',
          memoryMib: 256,
          configuration: own.configuration,
          env: own.env,
        }),
        own.request,
      ],
      [bareRelay(), { path: '/v1/listen', authorizations: [''] }],
    ]
    const { found, skipped } = await sort(candidates)
    const seconds = quick ? 5 : SECONDS
    const trials = found.flatMap(([candidate, request]): Trial[] => [
      ...SESSIONS.map(
        (sessions): Trial => ({
          candidate,
          load: `${sessions} sessions`,
          ...(candidate.name === 'larkway' ? { against: 'bare-relay' } : {}),
          verify: (session) => verify(session, request),
          warmUp: async (session) => void (await listen(session, { ...request, sessions: 20, seconds: 3 })),
          run: (session) => session.measure(() => listen(session, { ...request, sessions, seconds })),
        }),
      ),
      {
        candidate,
        load: `${IDLE_SESSIONS} idle sessions`,
        verify: async () => {},
        warmUp: async () => {},
        run: (session) =>
          session.measure(() =>
            listen(session, { ...request, sessions: IDLE_SESSIONS, seconds: 2, idle: true }),
          ),
      },
    ])
    return { trials, skipped }
  },
}

async function verify(session: Session, request: LiveRequest): Promise<void> {
  const { failures, firstFailure } = await listen(session, { ...request, sessions: 1, seconds: 3 })
  if (failures > 0) throw new Error(`verification: ${firstFailure}`)
}

function listen({ lab, port }: Session, task: Omit<LiveTask, 'port'>): Promise<LiveReport> {
  return lab.generate<LiveTask, LiveReport>('live', { ...task, port })
}
