import type { Result, Row } from './harness/result.ts'
import { addedP50Ms, addedP99Ms, againstPair, DIRECT, isLarkway, median, ofStore } from './harness/result.ts'
import { HIT } from './scenarios/cache.ts'
import { SUBMITTED } from './scenarios/jobs.ts'
import { BUDGET_MIB, CONNECTIONS } from './scenarios/slow-provider.ts'
import { USAGE_LOADS } from './scenarios/usage.ts'

/** A promise about one scenario, as a figure and its limit. */
interface Gate {
  readonly scenario: string
  readonly what: string
  readonly unit: string
  readonly bound: 'at most' | 'at least'
  readonly limit: number
  /** Undefined when what it needs was not measured. */
  measure(find: Find): number | undefined
}

/** A second of 16 kHz audio, which is what is not final yet, in the blocks that it is kept in. */
const KEPT_AUDIO_KIB = 48

type Find = (load: string, candidate: string) => Row | undefined

const GATES: readonly Gate[] = [
  {
    scenario: 'small',
    what: 'GET /v1/me: requests per CPU second beside a bare uWebSockets.js handler',
    unit: '×',
    bound: 'at least',
    limit: 0.75,
    measure: (find) => over(find('GET /v1/me', 'bare-uws')?.cpu, find('GET /v1/me', 'larkway')?.cpu),
  },
  ...['16 connections', '64 connections'].flatMap((load) => [
    cpuGate('multipart', load, 'larkway-memory', 'nginx-tuned', 1.6),
    cpuGate('multipart', load, 'larkway-folder', 'nginx-tuned', 6),
    cpuGate('multipart', load, 'larkway-memory', 'portkey', 0.25),
  ]),
  cpuGate('base64', 'JSON, 16 × 25 MB/s', 'larkway', 'json-parse', 0.2),
  ...['JSON', 'multipart'].map((kind): Gate => {
    const load = `${kind}, 16 × 25 MB/s`
    return {
      scenario: 'base64',
      what: `p99 of GET /healthz beside ${load}, against an idle server`,
      unit: '×',
      bound: 'at most',
      limit: 3,
      measure: (find) => over(find(load, 'larkway')?.pings?.p99Ms, find(load, 'larkway')?.pings?.idleP99Ms),
    }
  }),
  ...['1,000 calls/s', '5,000 calls/s'].map(
    (load): Gate => ({
      scenario: 'chat',
      what: `${load}: added p50 against nginx`,
      unit: '×',
      bound: 'at most',
      limit: 1.5,
      measure: (find) => over(added(find, load, 'larkway'), added(find, load, 'nginx-tuned')),
    }),
  ),
  ...['1,000 calls/s', '64 connections'].map(
    (load): Gate => ({
      scenario: 'chat',
      what: `${load}: calls per CPU second against Portkey`,
      unit: '×',
      bound: 'at least',
      limit: 10,
      measure: (find) => over(find(load, 'portkey')?.cpu, find(load, 'larkway')?.cpu),
    }),
  ),
  {
    scenario: 'slow-provider',
    what: `peak RSS with ${CONNECTIONS} uploads in flight and a budget of ${BUDGET_MIB} MiB`,
    unit: 'MiB',
    bound: 'at most',
    limit: 120 + 1.1 * BUDGET_MIB + CONNECTIONS,
    measure: (find) => find(`${CONNECTIONS} connections`, 'larkway')?.peakRssMib,
  },
  ...['GET /v1/me', 'POST /v1/speech'].flatMap((load) => [
    pairGate('observability', load, 'larkway-metrics', 'larkway', 1.03),
    pairGate('console', load, 'larkway-consoles', 'larkway', 1.02),
  ]),
  ...USAGE_LOADS.map((load) => pairGate('usage', load, 'larkway-usage', 'larkway', 1.02)),
  {
    scenario: 'cache',
    what: 'CPU of speech that was made before, 3 KB of audio, without what the bytes cost, against GET /v1/me',
    unit: '×',
    bound: 'at most',
    limit: 1.3,
    measure: hitAgainstMe,
  },
  cpuGate('live', '1000 sessions', 'larkway', 'bare-relay', 1.1, 'frame'),
  {
    scenario: 'live',
    what: '100 sessions: p99 of the age of the text, added to that of a bare relay',
    unit: 'ms',
    bound: 'at most',
    limit: 5,
    measure(find) {
      const row = find('100 sessions', 'larkway')
      const relay = find('100 sessions', 'bare-relay')
      return row && relay && addedP99Ms([row, relay], row)
    },
  },
  {
    scenario: 'live',
    what: '1000 sessions: memory per session, audio that is kept included',
    unit: 'KiB',
    bound: 'at most',
    limit: 120 + KEPT_AUDIO_KIB,
    measure: (find) => find('1000 sessions', 'larkway')?.sessionKib,
  },
  ...['8 KiB', '200 KiB'].flatMap((size) => [
    submitGate(`${size}, embedded: ${SUBMITTED}`, 'larkway-embedded', 'store-folder'),
    submitGate(`${size}, Redis and S3: ${SUBMITTED}`, 'larkway-redis-s3', 'store-s3'),
  ]),
]

/**
 * Prints each gate of the measured scenarios and how it came out. One that could not be measured has not been passed,
 * and neither has one whose scenario had failed requests of Larkway's.
 *
 * @returns exit status: 0, or 1 when a gate was not passed
 */
export function checkGates(results: readonly Result[]): 0 | 1 {
  let passed = true
  const judge = (ok: boolean, line: string) => {
    passed &&= ok
    console.log(`${ok ? 'ok    ' : 'FAILED'}  ${line}`)
  }
  for (const { name, rows } of results) {
    const find: Find = (load, candidate) =>
      rows.find((row) => row.load === load && row.candidate === candidate)
    for (const { what, unit, bound, limit, measure } of GATES.filter(({ scenario }) => scenario === name)) {
      const figure = measure(find)
      const ok = figure !== undefined && (bound === 'at most' ? figure <= limit : figure >= limit)
      judge(ok, `${what}: ${figure?.toFixed(2) ?? 'not measured'} ${unit}, ${bound} ${limit.toFixed(2)}`)
    }
    const failures = rows
      .filter(({ candidate }) => isLarkway(candidate))
      .reduce((sum, row) => sum + row.failures, 0)
    judge(failures === 0, `${name}: ${failures} of Larkway's requests failed, at most 0`)
  }
  return passed ? 0 : 1
}

function cpuGate(
  scenario: string,
  load: string,
  candidate: string,
  peer: string,
  limit: number,
  per: 'GB' | 'frame' = 'GB',
): Gate {
  return {
    scenario,
    what: `${load}: CPU per ${per} of ${candidate} against ${peer}`,
    unit: '×',
    bound: 'at most',
    limit,
    measure: (find) => over(find(load, candidate)?.cpu, find(load, peer)?.cpu),
  }
}

/** A job is submitted by one put, and by one write to the state. */
function submitGate(load: string, candidate: string, store: string): Gate {
  return {
    scenario: 'jobs',
    what: `${load}: jobs per second beside the store's own puts`,
    unit: '×',
    bound: 'at least',
    limit: 0.6,
    measure(find) {
      const [row, itself] = [find(load, candidate), find(load, store)]
      return row && itself && ofStore([itself], row)
    },
  }
}

/**
 * A hit of the speech cache against `GET /v1/me`, without its bytes, which are what a bare server takes more for the
 * same bytes: the median of the ratios of the rounds.
 */
function hitAgainstMe(find: Find): number | undefined {
  const [hit, me] = [find(HIT, 'larkway'), find('GET /v1/me', 'larkway')]
  const [bareHit, bareMe] = [find(HIT, 'bare-uws'), find('GET /v1/me', 'bare-uws')]
  if (!hit || !me || !bareHit || !bareMe) return undefined
  const cpuOf = ({ runs }: Row, round: number) => runs[round]?.cpu ?? Number.NaN
  const ratios = hit.runs.map(({ cpu }, round) => {
    const bytes = cpuOf(bareHit, round) - cpuOf(bareMe, round)
    return (cpu - Math.max(0, bytes)) / cpuOf(me, round)
  })
  return over(median(ratios), 1)
}

/** The cost of being watched. */
function pairGate(scenario: string, load: string, candidate: string, pair: string, limit: number): Gate {
  return {
    scenario,
    what: `${load}: CPU per request of ${candidate} against ${pair}`,
    unit: '×',
    bound: 'at most',
    limit,
    measure(find) {
      const [row, other] = [find(load, candidate), find(load, pair)]
      return row && other && againstPair([other], row)
    },
  }
}

function added(find: Find, load: string, candidate: string): number | undefined {
  const [direct, row] = [find(load, DIRECT), find(load, candidate)]
  return direct && row && addedP50Ms([direct], row)
}

function over(figure: number | undefined, base: number | undefined): number | undefined {
  if (figure === undefined || base === undefined) return undefined
  const ratio = figure / base
  return Number.isFinite(ratio) ? ratio : undefined
}
