import { bareRelay, type Found, larkway } from '../candidates.ts'
import type { Session, Trial } from '../harness/measure.ts'
import { FILES_MAX } from '../harness/processes.ts'
import { larkwayLive } from '../larkway.ts'
import type { LiveReport, LiveTask } from '../load/live.ts'
import { OPENAI_MODEL } from '../openai.ts'
import { GATEWAY_KEY, installed, LITELLM } from '../peers/gateways.ts'
import { type Scenario, sort } from './scenario.ts'

const SESSIONS = [100, 500, 1_000, 2_000]
const SECONDS = 12
/** In OpenAI's protocol, which is what other gateways relay; so few that a relay in Python keeps up. */
const OPENAI_SESSIONS = 40
/** Each takes two files of a gateway, which has some of its own; where the machine gives fewer, so many fewer. */
const IDLE_SESSIONS = Math.min(10_000, Math.floor((FILES_MAX - 200) / 200) * 100)
const IDLE_SECONDS = 10
/** Code that a server compiles late is no cost of a session. */
const WARM_UP = { sessions: 50, seconds: 5 }

type LiveRequest = Pick<LiveTask, 'path' | 'authorizations' | 'protocol'>

interface Kind {
  readonly request?: LiveRequest
  readonly openai: LiveRequest
}

/** Live audio: 20 ms frames of PCM at real time, and text that comes back every 200 ms of it. */
export const live: Scenario = {
  name: 'live',
  title: 'Live transcription, 50 frames a second from every session',
  cpuUnit: 'us/request',
  network: 'system',
  rounds: 3,
  upstream: { program: 'live-upstream.ts', args: [] },

  async plan({ quick }) {
    const { configuration, env, request, openaiRequest } = larkwayLive()
    const options = { name: 'larkway', label: 'Larkway', memoryMib: 256, configuration, env }
    const candidates: readonly (readonly [Found, Kind])[] = [
      [larkway(options), { request, openai: openaiRequest }],
      [bareRelay(), { request: direct('/v1/listen'), openai: openaiOf('/v1/realtime') }],
      // Its installation is not for a short run.
      ...(quick ? [] : [await installed(LITELLM)]).map((one) => [one, { openai: THROUGH_LITELLM }] as const),
    ]
    const { found, skipped } = await sort(candidates)
    const seconds = quick ? 5 : SECONDS
    const trials = found.flatMap(([candidate, { request, openai }]): Trial[] => {
      const against = candidate.name === 'bare-relay' ? {} : { against: 'bare-relay' }
      const speaking = (sessions: number, load: string, request: LiveRequest): Trial => ({
        ...{ candidate, load, sessions, ...against },
        verify: (session) => verify(session, request),
        warmUp: async (session) => void (await listen(session, { ...request, ...WARM_UP })),
        run: (session) => session.measure(() => listen(session, { ...request, sessions, seconds })),
      })
      const openaiLoad = `${OPENAI_SESSIONS} sessions, OpenAI's protocol`
      return [
        ...(request === undefined
          ? []
          : [
              ...SESSIONS.map((sessions) => speaking(sessions, `${sessions} sessions`, request)),
              ...idleTrials({ candidate, sessions: IDLE_SESSIONS, ...against }, request),
            ]),
        speaking(OPENAI_SESSIONS, openaiLoad, openai),
      ]
    })
    return { trials, skipped }
  },
}

function direct(path: string): LiveRequest {
  return { path, authorizations: [''] }
}

function openaiOf(path: string): LiveRequest {
  return { ...direct(path), protocol: 'openai' }
}

const THROUGH_LITELLM: LiveRequest = {
  ...openaiOf(`/v1/realtime?intent=transcription&model=${OPENAI_MODEL}`),
  authorizations: [`Bearer ${GATEWAY_KEY}`],
}

/** The opening of sessions that say nothing, and the time over which they are left alone. */
function idleTrials(
  common: Pick<Trial, 'candidate' | 'against'> & { sessions: number },
  request: LiveRequest,
): Trial[] {
  const { sessions } = common
  const task = { ...request, sessions, seconds: IDLE_SECONDS }
  const open = (session: Session) => listen(session, { ...task, idle: 'opened' })
  return [
    {
      ...common,
      load: `${sessions} idle sessions: opened`,
      verify: async () => {},
      warmUp: async () => {},
      run: (session) => session.measure(() => open(session)),
    },
    {
      ...common,
      load: `${sessions} idle sessions: a second of each`,
      verify: async () => {},
      warmUp: async (session) => void (await open(session)),
      run: (session) => session.measure(() => listen(session, { ...task, idle: 'left' })),
    },
  ]
}

async function verify(session: Session, request: LiveRequest): Promise<void> {
  const { failures, firstFailure } = await listen(session, { ...request, sessions: 1, seconds: 3 })
  if (failures > 0) throw new Error(`verification: ${firstFailure}`)
}

function listen({ lab, port }: Session, task: Omit<LiveTask, 'port'>): Promise<LiveReport> {
  return lab.generate<LiveTask, LiveReport>('live', { ...task, port })
}
