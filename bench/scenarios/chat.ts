import { type Candidate, larkway, nginx, portkey, renamed, upstreamItself } from '../candidates.ts'
import type { Driven, Session, Trial } from '../harness/measure.ts'
import { larkwayChat } from '../larkway.ts'
import type { PingReport, PingTask } from '../load/pings.ts'
import { openaiChat, portkeyHeaders } from '../openai.ts'
import { ONCE, type RequestOf, type Scenario, sort, upload } from './scenario.ts'

const RATES = [1_000, 5_000] as const
const MESSAGE = 'Hello.'
const DEFAULT_BUDGET_MIB = 256

interface Kind {
  readonly request: RequestOf
  /** The text of an answer. */
  readonly content: (body: string) => unknown
}

/**
 * What a gateway adds to a small call: calls come at a fixed rate, due whether or not the earlier ones were answered,
 * and the same calls go to the provider without anything between.
 */
export const chat: Scenario = {
  name: 'chat',
  title: 'Small chats at a fixed rate',
  cpuUnit: 'us/request',
  network: 'system',
  rounds: 3,
  upstream: { program: 'upstream.ts', args: [] },

  async plan({ quick }) {
    const own = larkway({ name: 'larkway', label: 'Larkway', memoryMib: DEFAULT_BUDGET_MIB })
    const openai: Kind = { request: () => openaiChat(MESSAGE, {}), content: openaiContent }
    const throughPortkey = (port: number) => openaiChat(MESSAGE, portkeyHeaders(port))
    const { found, skipped } = await sort<Kind>([
      [upstreamItself(), openai],
      [renamed(nginx('tuned'), 'nginx-tuned', 'nginx proxy_pass'), openai],
      [own, { request: () => larkwayChat(MESSAGE), content: (body) => JSON.parse(body).content }],
      [await portkey(), { request: throughPortkey, content: openaiContent }],
    ])
    const trials = RATES.flatMap((rate) =>
      found.map(([candidate, kind]) => trial(candidate, kind, rate, quick)),
    )
    return { trials, skipped }
  },
}

function openaiContent(body: string): unknown {
  return JSON.parse(body).choices?.[0]?.message?.content
}

function trial(candidate: Candidate, kind: Kind, perSecond: number, quick: boolean): Trial {
  return {
    candidate,
    load: `${perSecond.toLocaleString('en')} calls/s`,
    async verify(session) {
      const { lastReply, firstFailure } = await upload(session, kind.request, ONCE)
      if (lastReply?.status !== 200) throw new Error(`verification: ${firstFailure}`)
      const content = kind.content(lastReply.body)
      if (content !== 'ok') throw new Error(`wrong answer: ${lastReply.body.slice(0, 200)}`)
    },
    async warmUp(session) {
      await drive(session, kind, Math.min(perSecond, 1_000), 1)
    },
    run: (session) => session.measure(() => drive(session, kind, perSecond, quick ? 2 : 5)),
  }
}

async function drive(
  { lab, port }: Session,
  kind: Kind,
  perSecond: number,
  seconds: number,
): Promise<Driven> {
  const request = kind.request(lab.upstreamPort)
  const task: PingTask = { port, request, perSecond, seconds }
  const report = await lab.generate<PingTask, PingReport>('pings', task)
  return { ...report, requests: report.latencyMs.count, bodyBytes: 0 }
}
