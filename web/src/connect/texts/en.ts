/** The texts of the connect page. `who`: the name of whoever asks. The other languages have the same keys. */
export const texts = {
  title: 'Connect your mailbox',
  asks: (who: string) => `${who} asks to read and send mail for you.`,
  privacy: (who: string) =>
    `Your password or sign-in is stored encrypted. ${who} reads and sends mail with it until the mailbox is removed here, ` +
    'or you change the password or withdraw access at your provider.',
  language: 'Language',
  moment: 'One moment …',

  address: 'Email address',
  password: 'Password',
  appPassword: 'App password',
  show: 'Show password',
  connect: 'Connect mailbox',
  busy: 'Logging in …',
  cancel: 'Cancel',
  cancelAndBack: 'Cancel and go back',
  back: 'Go back',
  continueWith: (provider: string) => `Continue with ${provider}`,
  orAppPassword: 'Or connect with an app password:',

  looking: 'Looking up your provider …',
  lookupFailed: 'Your provider could not be looked up. Please try again.',
  unknownServers:
    'We do not know the mail servers of this address: please type them in below. Your provider or your IT support can name them.',
  notFoundTitle: 'The servers were not found',
  more: 'More options',
  incoming: 'Incoming mail (IMAP)',
  outgoing: 'Outgoing mail (SMTP)',
  server: 'Server',
  port: 'Port',
  encryption: 'Encryption',
  none: 'None',

  closedTitle: 'This mailbox cannot be connected with a password',
  closedAdvice: (who: string) => `Please use another address, or cancel and let ${who} know.`,
  closedOther: 'This provider has turned off passwords for other services.',
  closed: {
    microsoft:
      'Microsoft no longer accepts passwords for Outlook.com, Hotmail and most Microsoft 365 mailboxes: they need a sign-in ' +
      'at Microsoft.',
    proton: 'Proton Mail encrypts mailboxes so that no other service can read them.',
    tuta: 'Tuta encrypts mailboxes so that no other service can read them.',
  } as Record<string, string>,
  otherProvider: 'This mailbox is at another provider',

  steps: {
    stepsTitle: 'Your provider needs an app password',
    imapTitle: 'First allow access by IMAP',
    twoStep: 'Turn on 2-Step Verification, if it is off:',
    open: 'Open this page and sign in:',
    choose: (what: string) => `Choose “${what}”.`,
    create: (name: string) => `Create a new app password. If you are asked for a name, type “${name}”.`,
    paste: 'Copy it and paste it below. Blanks in it do not matter.',
    switchOn: 'Switch on access by IMAP, and save.',
    then: 'Then type the password of your mailbox below.',
    help: 'Help page of the provider',
    icloud: 'Sign-In and Security → App-Specific Passwords',
  },

  failed: 'That did not work',
  failures: {
    'errors/invalid_credentials': 'Your provider did not accept this address and password. Please check both.',
    'errors/provider_error':
      'The mail server could not be reached, or did not answer as expected. Please try again later.',
    'errors/provider_rejected': 'Your provider refused the connection.',
    'errors/already_exists': 'This mailbox is connected already, by someone else.',
    'errors/too_many_requests': 'Too many attempts. Please wait a minute.',
    'errors/service_unavailable': 'The service is not available just now. Please try again in a moment.',
    'errors/not_found': 'This link no longer works. Please ask for a new one.',
    'errors/invalid_parameters': 'Something in the form is not right. Please check what you typed.',
    '': 'The service cannot be reached. Please check your connection and try again.',
  } as Record<string, string>,
  failedOther: 'Something went wrong on our side. Please try again.',
  tryAppPassword: 'It has to be an app password, made as described above, not the password that you sign in with.',
  tryImap: 'Is access by IMAP switched on, as described above?',
  details: 'Details for support',
  returned: {
    access_denied: 'You did not allow access. Nothing was connected.',
    other_address: 'You signed in with another address than the one to connect. Please sign in with that address.',
    invalid_credentials: 'The mail server did not accept the sign-in. IMAP may be switched off for this mailbox.',
    provider_rejected:
      'The provider does not accept this service at present. Whoever sent you the link has to correct that.',
    provider_error: 'The mail server could not be reached, or did not answer as expected.',
    already_exists: 'This mailbox is connected already, by someone else.',
    too_many_requests: 'Too many attempts. Please wait a minute.',
    expired: 'The sign-in took too long, or was begun in another browser. Please open the link again.',
  } as Record<string, string>,
  returnedOther: 'The sign-in at the provider failed. Please try again.',

  goneTitle: 'This link does not work',
  goneWhy: 'It may have been copied incompletely, or withdrawn.',
  askNew: (who: string) => `Please ask ${who}, or the person who sent you the link, for a new one.`,
  wrong: 'Something went wrong',
  doneTitle: 'Your mailbox is connected',
  done: 'All done',
  doneText: 'You can close this page.',
  usedTitle: 'This link was used already',
  usedText: 'A mailbox was connected with it.',
  expiredTitle: 'This link has expired',
  cancelledTitle: 'Nothing was connected',
  cancelledText: 'This link no longer works.',
};

export type Texts = typeof texts;
