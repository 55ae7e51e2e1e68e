import { useEffect, useState } from 'preact/hooks'
import { html } from '../html.ts'
import { Button } from './button.ts'

export interface CopyProps {
  readonly text: string
  /** What is copied, for screen readers and as a tooltip. */
  readonly label?: string
  /** Shown beside the icon. */
  readonly children?: string
  readonly onCopied?: () => void
}

export function Copy({ text, label = 'Copy', children, onCopied }: CopyProps) {
  const [state, setState] = useState<'idle' | 'done' | 'failed'>('idle')
  useEffect(() => {
    if (state === 'idle') return
    const timer = setTimeout(() => setState('idle'), 1600)
    return () => clearTimeout(timer)
  }, [state])
  const copy = async () => {
    const done = await toClipboard(text)
    setState(done ? 'done' : 'failed')
    if (done) onCopied?.()
  }
  const icon = state === 'done' ? 'check' : state === 'failed' ? 'alert' : 'copy'
  const said =
    state === 'done' ? 'Copied' : state === 'failed' ? 'Couldn’t copy. Select the text and copy it.' : ''
  return html`<span class="copy">
    <${Button} kind=${children ? 'plain' : 'quiet'} small icon=${icon} label=${said || label} onClick=${copy}>
      ${children ? (state === 'done' ? 'Copied' : children) : undefined}
    <//>
    <span class="hidden" role="status">${said}</span>
  </span>`
}

/** The clipboard's own interface is there on https and localhost only. */
async function toClipboard(text: string): Promise<boolean> {
  if (navigator.clipboard)
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    )
  const area = document.createElement('textarea')
  area.value = text
  area.readOnly = true
  area.className = 'hidden'
  // What is outside an open dialog cannot be selected.
  const place = document.querySelector('dialog[open]') ?? document.body
  place.append(area)
  area.select()
  const done = document.execCommand('copy')
  area.remove()
  return done
}
