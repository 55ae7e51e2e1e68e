import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'

/** Least, initial and largest receive buffer of a TCP socket, bytes; as in the deployment files. */
const CAPPED_RMEM = '4096 131072 524288'
const CAP_BYTES = 524_288
const SYSTEM_SETTING = '/proc/sys/net/ipv4/tcp_rmem'
/** Runs the command that follows in a network with nothing but a capped loopback. */
const SET_UP = `ip link set lo up && echo "${CAPPED_RMEM}" > ${SYSTEM_SETTING} && exec "$0" "$@"`

/**
 * Whether receive buffers are capped here as deployments have them. Without it a paused upload still brings as much
 * as the memory budget into memory, and nothing can be said about bounds.
 */
export function buffersAreCapped(): boolean {
  try {
    const [, , most = Number.POSITIVE_INFINITY] = readFileSync(SYSTEM_SETTING, 'utf8')
      .split(/\s+/)
      .map(Number)
    return most <= CAP_BYTES
  } catch {
    return false
  }
}

/**
 * Runs the tests of a file with capped receive buffers: here when they are, else by running the file again in a
 * network of its own. Where that is not allowed they run here all the same, and `buffersAreCapped` tells them.
 *
 * @param file `import.meta.url` of the test file, which calls this once and defines its tests in `define`. The network
 *             has no way out: what must be fetched is fetched before.
 */
export async function inCappedNetwork(t: Test, file: string, define: () => void): Promise<void> {
  const unshare = buffersAreCapped() ? null : findUnshare()
  if (unshare === null) {
    define()
    return
  }
  const command = [...unshare, process.execPath, fileURLToPath(file)]
  // The S3 server of the run is in another network: what is needed is started here.
  const { LARKWAY_TEST_S3: _, ...env } = process.env
  await t.spawn(
    'unshare',
    command,
    { stdio: ['ignore', 'pipe', 'inherit'], env },
    'with capped receive buffers',
  )
}

/** Arguments of `unshare` that work here; null when none do. */
function findUnshare(): string[] | null {
  const users = process.getuid?.() === 0 ? [[]] : [['--map-root-user']]
  for (const user of users) {
    const args = ['--net', ...user, 'sh', '-c', SET_UP]
    if (spawnSync('unshare', [...args, 'true']).status === 0) return args
  }
  return null
}
