import { fastify, larkway, nginx, portkey } from '../candidates.ts'
import type { Trial } from '../harness/measure.ts'
import { larkwayMultipart } from '../larkway.ts'
import { openaiMultipart, portkeyHeaders } from '../openai.ts'
import { GATEWAY_HEADERS, gateways, isGateway } from '../peers/gateways.ts'
import { AUDIO_BYTES } from './multipart.ts'
import { checked, ONCE, type RequestOf, type Scenario, sort, upload, verifyAudio } from './scenario.ts'

export const CONNECTIONS = 64
/** Room for two such bodies. */
export const BUDGET_MIB = 64
const PROVIDER_BYTES_PER_SECOND = 20_000_000

/** Memory held for callers while a provider takes its time: peak memory is the figure. */
export const slowProvider: Scenario = {
  name: 'slow-provider',
  title: '64 uploads of 25 MB in flight to a provider that takes 20 MB/s',
  cpuUnit: 's/GB',
  network: 'capped',
  rounds: 3,
  upstream: { program: 'slow-upstream.ts', args: [String(PROVIDER_BYTES_PER_SECOND)] },

  async plan({ quick }) {
    const plain: RequestOf = () => openaiMultipart(AUDIO_BYTES)
    const { found, skipped } = await sort<RequestOf>([
      [
        larkway({
          name: 'larkway',
          label: `Larkway, ${BUDGET_MIB} MiB budget`,
          memoryMib: BUDGET_MIB,
        }),
        () => larkwayMultipart(AUDIO_BYTES),
      ],
      [await nginx('tuned'), plain],
      [await fastify(), plain],
      [await portkey(), (port) => openaiMultipart(AUDIO_BYTES, portkeyHeaders(port))],
      ...(quick ? [] : await gateways()).map(
        (one) => [one, () => openaiMultipart(AUDIO_BYTES, GATEWAY_HEADERS)] as const,
      ),
    ])
    const trials = found.map(
      ([candidate, request]): Trial => ({
        candidate,
        load: `${CONNECTIONS} connections`,
        // They take minutes, and their peak is some fifty times the budget.
        ...(isGateway(candidate) ? { rounds: 1 } : {}),
        verify: (session) => verifyAudio(session, request, AUDIO_BYTES),
        async warmUp(session) {
          await upload(session, request, { ...ONCE, connections: 4 })
        },
        run: (session) =>
          session.measure(async () =>
            checked(await upload(session, request, { ...ONCE, connections: CONNECTIONS })),
          ),
      }),
    )
    return { trials, skipped }
  },
}
