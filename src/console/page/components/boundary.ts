import { Component, type ComponentChildren } from 'preact'
import { h } from '../h.ts'
import { Button } from './button.ts'
import { Code } from './copy.ts'

interface Props {
  /** A new one clears the fault: the place of the page. */
  readonly place: string
  readonly children?: ComponentChildren
}

/** Keeps a fault in one view from taking the whole page with it. */
export class Boundary extends Component<Props, { readonly fault: Error | null }> {
  override state: { readonly fault: Error | null } = { fault: null }

  static override getDerivedStateFromError(thrown: unknown) {
    return { fault: thrown instanceof Error ? thrown : new Error(String(thrown)) }
  }

  override componentDidUpdate(before: Props) {
    if (before.place !== this.props.place && this.state.fault) this.setState({ fault: null })
  }

  override render() {
    const { fault } = this.state
    if (!fault) return this.props.children
    return h(
      'div',
      { class: 'error-state', role: 'alert' },
      h('h1', null, 'Something went wrong'),
      h(
        'p',
        { class: 'empty-text' },
        'This is a bug in the console; your requests aren’t affected. Reload the page. If it keeps ' +
          'failing, report the details below.',
      ),
      h(Code, { text: fault.stack ?? fault.message, title: 'Details', wrap: true, tall: true }),
      h(
        'div',
        { class: 'empty-action' },
        h(Button, { icon: 'refresh', onClick: () => location.reload() }, 'Reload'),
      ),
    )
  }
}
