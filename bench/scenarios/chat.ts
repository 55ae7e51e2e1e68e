import { bareProxy, type Candidate, larkway, nginx, portkey, renamed, upstreamItself } from '../candidates.ts'
import type { Driven, Session, Trial } from '../harness/measure.ts'
import { larkwayChat } from '../larkway.ts'
import type { PingReport, PingTask } from '../load/pings.ts'
import type { RequestSpec } from '../load/request.ts'
import type { RequestReport, RequestTask } from '../load/requests.ts'
import { openaiChat, portkeyHeaders } from '../openai.ts'
import { GATEWAY_HEADERS, gateways, isLiteLlm } from '../peers/gateways.ts'
import { ONCE, type RequestOf, type Scenario, sort, upload, WARM_UP_SECONDS } from './scenario.ts'

const MESSAGE = 'Hello.'
const DEFAULT_BUDGET_MIB = 256
const WARM_UP_CONNECTIONS = 8
const CONNECTIONS = 64
const SECONDS = 2

interface Kind {
  readonly request: RequestOf
  /** The text of an answer. */
  readonly content: (body: string) => unknown
  /** Absent: all of them. A rate that a server cannot keep would be measured as a queue. */
  readonly loads?: readonly Load[]
  /** Rounds at most; absent: all of them. */
  readonly rounds?: number
  /** Absent: WARM_UP_SECONDS. */
  readonly warmUpSeconds?: number
}

/**
 * Latency that a gateway adds to a small call: calls come at a fixed rate, due whether or not the earlier ones were
 * answered, and the same calls go to the provider without anything between.
 */
export const chat: Scenario = {
  name: 'chat',
  title: 'Small chats at a fixed rate',
  cpuUnit: 'us/request',
  network: 'system',
  rounds: 3,
  upstream: { program: 'upstream.ts', args: [] },

  async plan({ quick }) {
    const own = (name: string, label: string) => larkway({ name, label, memoryMib: DEFAULT_BUDGET_MIB })
    const throughLarkway = (access: 'own' | 'platform'): Kind => ({
      request: () => larkwayChat(MESSAGE, access),
      content: (body) => JSON.parse(body).content,
    })
    const openai: Kind = { request: () => openaiChat(MESSAGE, {}), content: openaiContent }
    const request = () => openaiChat(MESSAGE, GATEWAY_HEADERS)
    const keyed: Kind = { ...openai, request, loads: [SLOW, SATURATED] }
    const throughPortkey = (port: number) => openaiChat(MESSAGE, portkeyHeaders(port))
    const { found, skipped } = await sort<Kind>([
      [upstreamItself(), openai],
      [renamed(await nginx('tuned'), 'nginx-tuned', 'nginx proxy_pass'), openai],
      [bareProxy(), openai],
      [own('larkway', "Larkway, customer's account"), throughLarkway('own')],
      [own('larkway-platform', 'Larkway, platform account, billed'), throughLarkway('platform')],
      [await portkey(), { ...keyed, request: throughPortkey }],
      // Their installation is not for a short run.
      ...(quick ? [] : await gateways()).map(
        (one) =>
          [
            one,
            'candidate' in one && isLiteLlm(one.candidate) ? { ...keyed, ...WITH_PATIENCE } : keyed,
          ] as const,
      ),
    ])
    const trials = LOADS.flatMap((load) =>
      found
        .filter(([, { loads = LOADS }]) => loads.includes(load))
        .map(([candidate, kind]) => trial(candidate, kind, load, quick)),
    )
    return { trials, skipped }
  },
}

function openaiContent(body: string): unknown {
  return JSON.parse(body).choices?.[0]?.message?.content
}

/** How calls are made: due at a rate, or as many as the server takes. */
interface Load {
  readonly name: string
  drive(session: Session, request: RequestSpec, quick: boolean): Promise<Driven>
}

const SLOW: Load = { name: '1,000 calls/s', drive: drivenAt(1_000) }
const FAST: Load = { name: '5,000 calls/s', drive: drivenAt(5_000) }
const SATURATED: Load = {
  name: `${CONNECTIONS} connections`,
  drive: (session, request, quick) => saturate(session, request, CONNECTIONS, quick ? 1 : SECONDS),
}
const LOADS: readonly Load[] = [SLOW, FAST, SATURATED]

/** For LiteLLM, which takes milliseconds of CPU for a call, and more for its first thousand: no rate, and one round. */
const WITH_PATIENCE: Pick<Kind, 'loads' | 'rounds' | 'warmUpSeconds'> = {
  loads: [SATURATED],
  rounds: 1,
  warmUpSeconds: 20,
}

function drivenAt(perSecond: number): Load['drive'] {
  return async ({ lab, port }, request, quick) => {
    const task: PingTask = { port, request, perSecond, seconds: quick ? 1 : SECONDS }
    const report = await lab.generate<PingTask, PingReport>('pings', task)
    return { ...report, requests: report.latencyMs.count, bodyBytes: 0 }
  }
}

async function saturate(
  { lab, port }: Session,
  request: RequestSpec,
  connections: number,
  seconds: number,
): Promise<Driven> {
  const task: RequestTask = { port, request, connections, seconds }
  const report = await lab.generate<RequestTask, RequestReport>('autocannon', task)
  return { ...report, bodyBytes: 0 }
}

function trial(candidate: Candidate, kind: Kind, load: Load, quick: boolean): Trial {
  return {
    candidate,
    load: load.name,
    ...(kind.rounds === undefined ? {} : { rounds: kind.rounds }),
    async verify(session) {
      const { lastReply, firstFailure } = await upload(session, kind.request, ONCE)
      if (lastReply?.status !== 200) throw new Error(`verification: ${firstFailure}`)
      const content = kind.content(lastReply.body)
      if (content !== 'ok') throw new Error(`wrong answer: ${lastReply.body.slice(0, 200)}`)
    },
    // A rate that a server which has not been optimized yet cannot keep would be measured as a queue.
    async warmUp(session) {
      const request = kind.request(session.lab.upstreamPort)
      await saturate(session, request, WARM_UP_CONNECTIONS, kind.warmUpSeconds ?? WARM_UP_SECONDS)
      // Then under the load itself, so that the connections to the provider are there.
      await load.drive(session, request, true)
    },
    run: (session) =>
      session.measure(() => load.drive(session, kind.request(session.lab.upstreamPort), quick)),
  }
}
