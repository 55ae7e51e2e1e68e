import { readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Logger, stackOf } from '../../contracts/log.ts'

/** Linux gives twice as much: no more than the 512 KiB that uWS reads at a time, whose reads therefore never fill. */
const RECEIVE_BUFFER_BYTES = 256 * 1024

/** Names in `asm-generic/socket.h` of Linux, on all machines that Node runs on. */
const SOL_SOCKET = 1
const SO_RCVBUF = 8
const SO_ACCEPTCONN = 30

/**
 * Caps the kernel's receive buffers of connections that this process accepts from now on, by those of its listening
 * sockets, which they inherit. Where that fails, a warning says so.
 *
 * uWS reads on after a pause for as long as the kernel has a full 512 KiB ready, and nothing else of the process runs
 * meanwhile: from senders faster than the process, as on loopback or over 10 Gbit/s, gigabytes of paused bodies came
 * into memory with the 6 to 32 MiB that systems allow. Neither uWS nor Node sets the option, so libc is called.
 */
export function capReceiveBuffers(log: Logger): void {
  if (process.platform !== 'linux') return
  try {
    // Loaded here: it takes 5 ms, which no command of the CLI has to pay.
    const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi').default
    const libc = koffi.load(null)
    const get = libc.func('int getsockopt(int, int, int, _Out_ int *, _Inout_ uint32_t *)')
    const set = libc.func('int setsockopt(int, int, int, const int *, uint32_t)')
    const length = Int32Array.BYTES_PER_ELEMENT
    for (const descriptor of readdirSync('/proc/self/fd').map(Number)) {
      const isListening = [0]
      get(descriptor, SOL_SOCKET, SO_ACCEPTCONN, isListening, [length]) // fails for what is no socket
      if (isListening[0] === 0) continue
      if (set(descriptor, SOL_SOCKET, SO_RCVBUF, [RECEIVE_BUFFER_BYTES], length) !== 0)
        throw new Error(`setsockopt: errno ${koffi.errno()}`)
    }
  } catch (error) {
    log.warn({ error: stackOf(error) }, 'receive buffers are not capped: paused uploads may take memory')
  }
}
