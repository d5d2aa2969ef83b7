import type { ComponentChildren, JSX } from 'preact';
import { useId } from 'preact/hooks';

interface FieldProps {
  label: string;
  help?: ComponentChildren;
}

interface ControlProps {
  id: string;
  class: string;
  'aria-describedby'?: string;
}

/** A control below its label, and above its help; `children` draws it with these attributes. */
function Field({ label, help, children }: FieldProps & { children: (props: ControlProps) => ComponentChildren }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, class: 'input', ...(help ? { 'aria-describedby': `${id}-help` } : {}) })}
      {help && (
        <span class="help" id={`${id}-help`}>
          {help}
        </span>
      )}
    </div>
  );
}

type Text<Attributes> = FieldProps & { value: string; set: (value: string) => void } & Omit<
    Attributes,
    'value' | 'label'
  >;

/** A labelled input. */
export function TextField({ label, help, value, set, ...rest }: Text<JSX.InputHTMLAttributes<HTMLInputElement>>) {
  return (
    <Field label={label} help={help}>
      {(props) => <input {...props} value={value} onInput={(event) => set(event.currentTarget.value)} {...rest} />}
    </Field>
  );
}

/** A labelled field of several lines. */
export function AreaField({ label, help, value, set, ...rest }: Text<JSX.TextareaHTMLAttributes<HTMLTextAreaElement>>) {
  return (
    <Field label={label} help={help}>
      {(props) => <textarea {...props} value={value} onInput={(event) => set(event.currentTarget.value)} {...rest} />}
    </Field>
  );
}

/** A labelled select; an option without a label shows its value. */
export function SelectField({
  label,
  value,
  set,
  options,
}: Omit<FieldProps, 'help'> & {
  value: string;
  set: (value: string) => void;
  options: readonly (string | { value: string; label: string })[];
}) {
  return (
    <Field label={label}>
      {(props) => (
        <select {...props} value={value} onChange={(event) => set(event.currentTarget.value)}>
          {options.map((option) => {
            const { value: each, label: text } =
              typeof option === 'string' ? { value: option, label: option.replaceAll('_', ' ') } : option;
            return (
              <option key={each} value={each}>
                {text}
              </option>
            );
          })}
        </select>
      )}
    </Field>
  );
}
