package locks;

/** The server address from REDLOCK_ADDRESS (host:port). */
record Address(String host, int port) {
    static Address given() {
        String address = System.getenv("REDLOCK_ADDRESS");
        int colon = address.lastIndexOf(':');
        return new Address(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
    }
}
