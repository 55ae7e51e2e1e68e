import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { bytes } from '../../format.ts'
import { html } from '../../html.ts'
import { Button } from '../../parts/button.ts'
import { Icon } from '../../parts/icon.ts'
import { Note } from '../../parts/states.ts'
import { Player } from './player.ts'
import { Recorder } from './recorder.ts'

const ACCEPT = 'audio/*,video/mp4,video/webm,.mp3,.mp4,.m4a,.wav,.webm,.ogg,.oga,.opus,.flac'

/** Where the audio comes from: dropped, picked or recorded. It stays in the page until it is sent. */
export function Source(props: {
  readonly file: File | null
  readonly url: string | null
  /** Null: not known. */
  readonly maxBytes: number | null
  readonly audio: { current: HTMLAudioElement | null }
  /** A call is under way: the file is not changed. */
  readonly locked: boolean
  readonly onFile: (file: File | null) => void
}) {
  const { file, url, maxBytes, audio, locked, onFile } = props
  useStrayDrops()
  return html`<div class="stack stack-tight">
    ${
      file === null
        ? html`<${DropZone} onFile=${onFile} />`
        : html`<div class="play-file">
            <div class="play-file-name">
              <strong>${file.name}</strong><span class="quiet nowrap">${bytes(file.size)}</span>
            </div>
            <${Button} small icon="close" onClick=${() => onFile(null)} disabled=${locked}>Change file<//>
          </div>`
    }
    ${file !== null && url !== null ? html`<${Player} src=${url} label=${file.name} audio=${audio} />` : null}
    ${
      file !== null && maxBytes !== null && file.size > maxBytes
        ? html`<${Note} tone="warn">
            Larger than the limit of ${bytes(maxBytes)}; it would be rejected. Cut or compress it: mp3 and webm are
            about a tenth of the size of wav.
          <//>`
        : null
    }
    ${file === null ? html`<div class="row"><${Recorder} disabled=${locked} onFile=${onFile} /></div>` : null}
  </div>`
}

function DropZone({ onFile }: { readonly onFile: (file: File) => void }) {
  const id = useId()
  const [over, setOver] = useState(false)
  /** Entering a child leaves its parent: only the last one to be left counts. */
  const depth = useRef(0)
  const enter = (step: 1 | -1) => (event: DragEvent) => {
    event.preventDefault()
    depth.current += step
    setOver(depth.current > 0)
  }
  const drop = (event: DragEvent) => {
    event.preventDefault()
    depth.current = 0
    setOver(false)
    const [file] = event.dataTransfer?.files ?? []
    if (file) onFile(file)
  }
  const pick = (event: Event) => {
    const [file] = (event.currentTarget as HTMLInputElement).files ?? []
    if (file) onFile(file)
  }
  return html`<label
    class=${over ? 'play-drop play-drop-over' : 'play-drop'}
    for=${id}
    onDragEnter=${enter(1)}
    onDragLeave=${enter(-1)}
    onDragOver=${(event: DragEvent) => event.preventDefault()}
    onDrop=${drop}
  >
    <input id=${id} class="hidden" type="file" accept=${ACCEPT} onChange=${pick} />
    <${Icon} name="upload" />
    <span>
      <strong>${over ? 'Drop it here' : 'Drop an audio file, or choose one'}</strong>
      <span class="play-drop-hint">
        mp3, mp4, m4a, wav, webm, ogg or flac. Nothing is uploaded until you press Transcribe.
      </span>
    </span>
  </label>`
}

/** A file that is dropped beside the zone would make the browser leave the page. */
function useStrayDrops(): void {
  useEffect(() => {
    const keep = (event: DragEvent) => {
      if (event.dataTransfer?.types.includes('Files')) event.preventDefault()
    }
    addEventListener('dragover', keep)
    addEventListener('drop', keep)
    return () => {
      removeEventListener('dragover', keep)
      removeEventListener('drop', keep)
    }
  }, [])
}
