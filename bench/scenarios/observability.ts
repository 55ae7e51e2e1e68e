import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { larkway } from '../candidates.ts'
import { type Scenario, sort } from './scenario.ts'
import { TINY_KINDS, tinyTrial } from './tiny.ts'

const DEFAULT_BUDGET_MIB = 256

/** A way to run the server, and the one that it is compared with. */
interface Variant {
  readonly name: string
  readonly label: string
  /** Name of another variant; absent: it is what others are compared with. */
  readonly against?: string
  readonly env?: Readonly<Record<string, string>>
}

/** @param receiver takes traces */
function variantsOf(receiver: string): readonly Variant[] {
  return [
    { name: 'larkway', label: 'Larkway' },
    {
      name: 'larkway-metrics',
      label: 'Larkway, metrics on',
      against: 'larkway',
      env: { LARKWAY_METRICS_PORT: '0' },
    },
    {
      name: 'larkway-tracing',
      label: 'Larkway, tracing on, all sampled',
      against: 'larkway',
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver },
    },
  ]
}

/** Something that takes whatever it is sent, until the process ends. @returns its origin */
async function startReceiver(): Promise<string> {
  const server = createServer((request, response) => {
    request.resume().once('end', () => response.end())
  })
  server.listen(0, '127.0.0.1').unref()
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Cost of being watched: the same tiny requests, in pairs of runs that follow one another. */
export const observability: Scenario = {
  name: 'observability',
  title: 'Metrics and tracing',
  cpuUnit: 'us/request',
  network: 'system',
  rounds: 7,
  upstream: { program: 'upstream.ts', args: [] },

  async plan({ quick }) {
    const seconds = quick ? { warmUp: 1, run: 1 } : { warmUp: 3, run: 4 }
    const variants = variantsOf(await startReceiver()).map(
      ({ name, label, env = {}, ...rest }) =>
        [larkway({ name, label, memoryMib: DEFAULT_BUDGET_MIB, env }), rest] as const,
    )
    const { found, skipped } = await sort<Pick<Variant, 'against'>>(variants)
    const trials = TINY_KINDS.flatMap((kind) =>
      found.map(([candidate, { against }]) => ({
        ...tinyTrial(candidate, kind, seconds),
        ...(against === undefined ? {} : { against }),
      })),
    )
    return { trials, skipped }
  },
}
