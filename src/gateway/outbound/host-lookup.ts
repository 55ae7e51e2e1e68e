import type { LookupAddress } from 'node:dns'
import { lookup } from 'node:dns/promises'
import type { LookupFunction } from 'node:net'
import { type Clock, systemClock, within } from '../../contracts/time.ts'
import { codeOf } from './ask-host.ts'

/** How long a look-up may take until the addresses of the last one are used. Resolvers answer in milliseconds. */
const PATIENCE_MS = 250
/** How long those are of use. */
const STALE_MS = 3_600_000
/** How long an address is tried last that gave no connection in its time. */
const SILENT_MS = 60_000

/** For `UV_THREADPOOL_SIZE`: half of the threads look names up, and a silent name server holds one for ten seconds. */
export const POOL_THREADS = '16'

/**
 * Looks hosts up for `net.connect`, each once at a time: calls to one with silent name servers would hold all threads.
 *
 * @param resolve finds the addresses of a host
 */
export function createHostLookup(
  resolve: (host: string) => Promise<LookupAddress[]>,
  clock: Clock,
): LookupFunction {
  const found = new Map<string, { readonly addresses: LookupAddress[]; readonly atMs: number }>()
  const asked = new Map<string, { readonly answer: Promise<LookupAddress[]>; readonly atMs: number }>()

  function ask(host: string) {
    const answer = resolve(host).finally(() => asked.delete(host))
    const asking = { answer, atMs: clock.now() }
    asked.set(host, asking)
    const note = (addresses: LookupAddress[]) => found.set(host, { addresses, atMs: clock.now() })
    // A host that is gone, and not only out of reach, is forgotten.
    answer.then(note, (error) => codeOf(error) === 'ENOTFOUND' && found.delete(host))
    return asking
  }

  function find(host: string): Promise<LookupAddress[]> {
    const { answer, atMs } = asked.get(host) ?? ask(host)
    const lastMs = found.get(host)?.atMs ?? Number.NEGATIVE_INFINITY
    if (clock.now() - lastMs > STALE_MS) return answer
    const leftMs = Math.max(0, atMs + PATIENCE_MS - clock.now())
    return within(leftMs, answer, clock).catch((error) => {
      const last = found.get(host)
      if (last === undefined) throw error
      return last.addresses
    })
  }

  return (host, { all }, callback) => {
    find(host).then(
      (found) => (all === true ? callback(null, found) : callback(null, found[0]!.address, found[0]!.family)),
      (error) => callback(error, []),
    )
  }
}

const silent = new Set<string>()

/** Has an address be tried after the other ones of its host for a while. */
export function noteSilent(address: string): void {
  silent.add(address)
  systemClock.after(SILENT_MS, () => silent.delete(address)).unref()
}

async function resolve(host: string): Promise<LookupAddress[]> {
  const addresses = await lookup(host, { all: true })
  return addresses.sort((one, other) => Number(silent.has(one.address)) - Number(silent.has(other.address)))
}

/** Options of all connections of the process, which share the threads that look up. */
export const TO_HOST = {
  lookup: createHostLookup(resolve, systemClock),
  /** Wait for each address but the last, ms: TCP sends a packet that was lost again after a second. Node's is 250. */
  autoSelectFamilyAttemptTimeout: 1_500,
}
