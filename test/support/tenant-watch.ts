import type { Socket } from 'node:net'

/** What a watched upstream found out. */
export interface Watched {
  requests: number
  /** Bytes that should not have been where they were, described. */
  readonly foreign: string[]
}

const ANSWER = '{"text":"yes"}'

/** A head that is longer is none. */
const HEAD_MAX_BYTES = 4096

/** How many of another tenant's bytes in a row are no coincidence. */
const RUN_BYTES = 12

/**
 * Serves one connection as a provider that answers as soon as it has the head of a request and reads the body
 * afterwards, slowly. Each tenant fills its audio with a byte of its own, so that any of another's is seen.
 *
 * @param tenantOf the fill byte of the tenant that a request's head belongs to
 * @param fills    the fill bytes of all tenants, and the one that released memory is overwritten with
 */
export function watchTenants(
  socket: Socket,
  watched: Watched,
  tenantOf: (head: string) => number,
  fills: readonly number[],
): void {
  let own = 0
  let left = 0
  let carried: Buffer = Buffer.alloc(0)
  socket.on('error', () => {})
  socket.on('data', (data: Buffer) => {
    let rest: Buffer = Buffer.concat([carried, data])
    carried = Buffer.alloc(0)
    while (rest.length > 0) {
      if (left === 0) {
        const end = rest.indexOf('\r\n\r\n')
        if (end < 0 && rest.length < HEAD_MAX_BYTES && 'POST '.startsWith(rest.toString('latin1', 0, 5))) {
          carried = rest
          break
        }
        const head = rest.subarray(0, Math.max(0, end)).toString('latin1')
        left = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0)
        if (end < 0 || left === 0) {
          watched.foreign.push(
            `outside a request: ${JSON.stringify(rest.subarray(0, 40).toString('latin1'))}`,
          )
          socket.destroy()
          return
        }
        own = tenantOf(head)
        rest = rest.subarray(end + 4)
        watched.requests += 1
        socket.write(
          `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${ANSWER.length}\r\n\r\n${ANSWER}`,
        )
        continue
      }
      const body = rest.subarray(0, left)
      left -= body.length
      rest = rest.subarray(body.length)
      for (const fill of fills) {
        if (fill !== own && body.includes(Buffer.alloc(RUN_BYTES, fill))) {
          watched.foreign.push(`tenant ${String.fromCharCode(own)} got ${String.fromCharCode(fill)}`)
        }
      }
    }
    socket.pause()
    setTimeout(() => socket.resume(), 2)
  })
}
