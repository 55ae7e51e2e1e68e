/** Above half a MiB the native read loop may take in a whole body behind a pause. */
const MAX_RECEIVE_BUFFER_BYTES = 524_288

/**
 * Says what is wrong with the kernel's limit for TCP receive buffers, if anything. uWS reads on after a
 * pause for as long as a full 512 KiB is ready; up to 21 MB of one body were seen to arrive that way,
 * outside of every budget.
 *
 * @param text content of /proc/sys/net/ipv4/tcp_rmem: three numbers of bytes, least, default and most
 * @returns    a sentence for the log, or null when the limit is low enough or cannot be read from the text
 */
export function receiveBufferWarning(text: string): string | null {
  const [, , most] = text.trim().split(/\s+/).map(Number)
  if (most === undefined || !(most > MAX_RECEIVE_BUFFER_BYTES)) return null
  return (
    `net.ipv4.tcp_rmem allows receive buffers of ${most} bytes: a paused upload may still bring up to 21 MB ` +
    `into memory; set it to "4096 131072 ${MAX_RECEIVE_BUFFER_BYTES}"`
  )
}
