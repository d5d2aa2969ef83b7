import type { Texts } from './en.ts';

export const texts: Texts = {
  title: 'Conecta tu buzón',
  asks: (who) => `${who} solicita leer y enviar correos en tu nombre.`,
  privacy: (who) =>
    `Tu contraseña o tu inicio de sesión se guarda cifrado. ${who} lo usa para leer y enviar correos hasta que el buzón se ` +
    'elimine aquí, o hasta que cambies la contraseña o retires el acceso en tu proveedor.',
  language: 'Idioma',
  moment: 'Un momento…',

  address: 'Correo electrónico',
  password: 'Contraseña',
  appPassword: 'Contraseña de aplicación',
  show: 'Mostrar contraseña',
  connect: 'Conectar buzón',
  busy: 'Iniciando sesión…',
  cancel: 'Cancelar',
  cancelAndBack: 'Cancelar y volver',
  back: 'Volver',
  continueWith: (provider) => `Continuar con ${provider}`,
  orAppPassword: 'O conéctate con una contraseña de aplicación:',

  looking: 'Buscando tu proveedor…',
  lookupFailed: 'No se ha podido determinar tu proveedor. Inténtalo de nuevo.',
  unknownServers:
    'No conocemos los servidores de correo de esta dirección: escríbelos abajo. Tu proveedor o tu departamento de informática ' +
    'puede indicártelos.',
  notFoundTitle: 'No se han encontrado los servidores',
  more: 'Más opciones',
  incoming: 'Correo entrante (IMAP)',
  outgoing: 'Correo saliente (SMTP)',
  server: 'Servidor',
  port: 'Puerto',
  encryption: 'Cifrado',
  none: 'Ninguno',

  closedTitle: 'Este buzón no se puede conectar con una contraseña',
  closedAdvice: (who) => `Usa otra dirección, o cancela y avisa a ${who}.`,
  closedOther: 'Este proveedor ya no acepta contraseñas para otros servicios.',
  closed: {
    microsoft:
      'Microsoft ya no acepta contraseñas para Outlook.com, Hotmail y la mayoría de los buzones de Microsoft 365: hay que ' +
      'iniciar sesión en Microsoft.',
    proton: 'Proton Mail cifra los buzones de modo que ningún otro servicio puede leerlos.',
    tuta: 'Tuta cifra los buzones de modo que ningún otro servicio puede leerlos.',
  },
  otherProvider: 'Este buzón está en otro proveedor',

  steps: {
    stepsTitle: 'Tu proveedor exige una contraseña de aplicación',
    imapTitle: 'Primero permite el acceso por IMAP',
    twoStep: 'Activa la verificación en dos pasos, si no lo está:',
    open: 'Abre esta página e inicia sesión:',
    choose: (what) => `Elige «${what}».`,
    create: (name) => `Crea una contraseña de aplicación nueva. Si te piden un nombre, escribe «${name}».`,
    paste: 'Cópiala y pégala abajo. Los espacios no importan.',
    switchOn: 'Activa el acceso por IMAP y guarda.',
    then: 'Después escribe abajo la contraseña de tu buzón.',
    help: 'Página de ayuda del proveedor',
    icloud: 'Inicio de sesión y seguridad → Contraseñas de app',
  },

  failed: 'No ha funcionado',
  failures: {
    'errors/invalid_credentials': 'Tu proveedor no ha aceptado esta dirección y contraseña. Revisa ambas.',
    'errors/provider_error':
      'No se ha podido contactar con el servidor de correo, o no ha respondido como se esperaba. Inténtalo más tarde.',
    'errors/provider_rejected': 'Tu proveedor ha rechazado la conexión.',
    'errors/already_exists': 'Este buzón ya está conectado por otra persona.',
    'errors/too_many_requests': 'Demasiados intentos. Espera un minuto.',
    'errors/service_unavailable':
      'El servicio no está disponible en este momento. Inténtalo de nuevo en unos instantes.',
    'errors/not_found': 'Este enlace ya no funciona. Pide uno nuevo.',
    'errors/invalid_parameters': 'Algún dato del formulario no es correcto. Revisa lo que has escrito.',
    '': 'No se puede contactar con el servicio. Comprueba tu conexión e inténtalo de nuevo.',
  },
  failedOther: 'Algo ha fallado por nuestra parte. Inténtalo de nuevo.',
  tryAppPassword:
    'Tiene que ser una contraseña de aplicación, creada como se indica arriba, no la contraseña con la que inicias sesión.',
  tryImap: '¿Está activado el acceso por IMAP, como se indica arriba?',
  details: 'Detalles para el soporte técnico',
  returned: {
    access_denied: 'No has permitido el acceso. No se ha conectado nada.',
    other_address:
      'Has iniciado sesión con una dirección distinta de la que se va a conectar. Inicia sesión con esa dirección.',
    invalid_credentials:
      'El servidor de correo no ha aceptado el inicio de sesión. Puede que IMAP esté desactivado en este buzón.',
    provider_rejected: 'El proveedor no acepta este servicio por ahora. Tiene que corregirlo quien te envió el enlace.',
    provider_error: 'No se ha podido contactar con el servidor de correo, o no ha respondido como se esperaba.',
    already_exists: 'Este buzón ya está conectado por otra persona.',
    too_many_requests: 'Demasiados intentos. Espera un minuto.',
    expired: 'El inicio de sesión ha tardado demasiado o se empezó en otro navegador. Abre el enlace de nuevo.',
  },
  returnedOther: 'El inicio de sesión en el proveedor ha fallado. Inténtalo de nuevo.',

  goneTitle: 'Este enlace no funciona',
  goneWhy: 'Puede que se haya copiado incompleto o que se haya retirado.',
  askNew: (who) => `Pide uno nuevo a ${who} o a la persona que te envió el enlace.`,
  wrong: 'Algo ha fallado',
  doneTitle: 'Tu buzón está conectado',
  done: 'Listo',
  doneText: 'Puedes cerrar esta página.',
  usedTitle: 'Este enlace ya se ha usado',
  usedText: 'Con él se conectó un buzón.',
  expiredTitle: 'Este enlace ha caducado',
  cancelledTitle: 'No se ha conectado nada',
  cancelledText: 'Este enlace ya no funciona.',
};
