/** What browsers record, as Larkway takes it, best first: Chromium and Firefox write webm, Safari mp4. */
const TYPES = ['audio/webm;codecs=opus', 'audio/webm', 'audio/mp4', 'audio/ogg;codecs=opus'] as const

const EXTENSIONS: Readonly<Record<string, string>> = { webm: 'webm', mp4: 'm4a', ogg: 'ogg' }

/** The media type to record in; null when the browser writes none that would be accepted. */
export function recordingType(isSupported: (type: string) => boolean): string | null {
  return TYPES.find(isSupported) ?? null
}

/** The name of the file that a recording is sent as. */
export function recordingName(mediaType: string, at: Date): string {
  const [, subtype = ''] = /^\w+\/(\w+)/.exec(mediaType) ?? []
  const stamp = at.toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-')
  return `recording-${stamp}.${EXTENSIONS[subtype] ?? 'webm'}`
}

/** What to do when the microphone does not open, by the name of the DOMException. */
export function microphoneTrouble(name: string): string {
  switch (name) {
    case 'NotAllowedError':
    case 'SecurityError':
      return 'The browser refused the microphone. Allow it for this site beside the address, or drop a file instead.'
    case 'NotFoundError':
    case 'OverconstrainedError':
      return 'No microphone was found. Connect one and record again, or drop a file instead.'
    case 'NotReadableError':
    case 'AbortError':
      return 'The microphone is in use by another program. Close that and record again, or drop a file instead.'
    default:
      return 'Recording needs https or localhost. Drop a file instead.'
  }
}
